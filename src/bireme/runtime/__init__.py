"""The code that runs inside the user's interpreter: standard library only, Python 3.9 and later.

`start_rank.py` runs a script as `python` itself would and tells afterwards what it saw. `start_zygote.py`
keeps heavy modules imported and forks ranks on demand. Both are run by path, in an interpreter that need not
have Bireme installed. `wire.py` says how a runner talks to a zygote.
"""
