"""How long a search will still take."""

from autodist.tuning._pace import Pace


def test_time_left_falls_through_trials_and_through_what_is_measured_again():
    now_s = 0.0
    pace = Pace(None, lambda: now_s)
    told = []
    for trial in range(4):  # the first one has the start of everything
        now_s += 30.0 if trial == 0 else 5.0
        told.append(pace.ended(3 - trial, 20.0))
    assert told == [110.0, 30.0, 25.0, 20.0]
    told = []
    for done in range(4):
        now_s += 6.0
        told.append(pace.again(3 - done))
    assert told == [18.0, 12.0, 6.0, 0.0]


def test_a_bound_on_time_bounds_what_is_left():
    now_s = 0.0
    pace = Pace(12.0, lambda: now_s)
    now_s = 10.0
    assert pace.ended(10, 5.0) == 2.0
    now_s = 11.0
    assert pace.again(4) == 1.0
    now_s = 13.0
    assert pace.again(3) == 0.0
