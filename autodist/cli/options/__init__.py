"""Options and arguments that several commands have, and what comes of them."""

from autodist.cli.options._cluster_options import DEFAULT_SPEC, ClusterOptions, cluster_options, resolve_spec
from autodist.cli.options._cost import bill_for, bill_of, examples_option, utility_for, utility_option
from autodist.cli.options._job import (
    JOB_SECTIONS,
    OPTIONS_OF_MACHINES,
    JobOptions,
    job_options,
    permission_options,
    seconds_option,
    transport_option,
)
from autodist.cli.options._launcher import kept_as_run, new_directory, silent_launcher
from autodist.cli.options._number import Number
from autodist.cli.options._options import NamesOption, RanksType, debug_option, is_debugging, typed_options
from autodist.cli.options._output_files import check_output, make_directory_of, write_output, written
from autodist.cli.options._script import ScriptWords, script_argument
from autodist.cli.options._sections import ScriptCommand
from autodist.cli.options._subject import Subject, SubjectOptions, find_subject, run_meant, subject_options

__all__ = [
    "DEFAULT_SPEC",
    "JOB_SECTIONS",
    "OPTIONS_OF_MACHINES",
    "ClusterOptions",
    "JobOptions",
    "NamesOption",
    "Number",
    "RanksType",
    "ScriptCommand",
    "ScriptWords",
    "Subject",
    "SubjectOptions",
    "bill_for",
    "bill_of",
    "check_output",
    "cluster_options",
    "debug_option",
    "examples_option",
    "find_subject",
    "is_debugging",
    "job_options",
    "kept_as_run",
    "make_directory_of",
    "new_directory",
    "permission_options",
    "resolve_spec",
    "run_meant",
    "script_argument",
    "seconds_option",
    "silent_launcher",
    "subject_options",
    "transport_option",
    "typed_options",
    "utility_for",
    "utility_option",
    "write_output",
    "written",
]
