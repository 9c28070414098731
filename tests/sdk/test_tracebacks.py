"""Of a stack that an interpreter wrote, a person is told the line of their own code."""

from __future__ import annotations

from bireme.sdk import tracebacks

DUMP = """\
Thread 0x00007f20 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
Current thread 0x00007f21 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/c10d.py", line 3252 in all_reduce
  File "/home/ada/train.py", line 12 in step
  File "/home/ada/train.py", line 30 in <module>
  File "/src/bireme/runtime/rank/run_target.py", line 109 in _run_as_main
  File "/src/bireme/runtime/start_rank.py", line 27 in <module>
""".splitlines()


def test_the_main_thread_is_last_and_its_place_is_the_innermost_line_of_the_user() -> None:
    found = tracebacks.threads(DUMP)

    assert [len(one.frames) for one in found] == [1, 3]
    assert tracebacks.place(found[-1].frames) == "train.py:12 in step()"
    assert tracebacks.place(found[0].frames) == "threading.py:331 in wait()"


def test_code_outside_of_functions_is_named_by_its_line_alone() -> None:
    assert tracebacks.place(tracebacks.threads(DUMP)[-1].frames[2:]) == "train.py:30"


def test_only_the_last_crash_counts_and_only_its_own_thread() -> None:
    lines = ["Fatal Python error: Aborted", *DUMP[2:3], '  File "/old.py", line 1 in old', "then restarted"]
    lines += ["Fatal Python error: Segmentation fault", "", *DUMP]

    assert tracebacks.crash_place(lines) == "train.py:12 in step()"
    assert not any("bireme/runtime" in line for line in tracebacks.crash(lines))


def test_what_is_no_stack_tells_no_place() -> None:
    assert tracebacks.crash_place([]) == ""
    assert tracebacks.crash_place(["Fatal Python error: none", 'File "x', "Current thread 0xzz:"]) == ""
    assert tracebacks.place(()) == ""
