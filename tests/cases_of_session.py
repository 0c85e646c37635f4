"""Cases that one launch runs together: which of them the tests chosen for this session ask for."""


def want_all(made, session, kind):
    """Tell `made` each `case` at a `place` of this kind that the session's tests are given and that run; return it."""
    for item in session.items:
        if item.get_closest_marker("skip") is not None:
            continue
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if isinstance(parameters.get("place"), kind):
            made.want(parameters["case"], parameters["place"])
    return made
