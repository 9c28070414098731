"""Everything that a job leaves behind: run directories, logs, the index of runs and the ledger of resources.

Everything here survives kill -9 at any instant. The run directories are the truth; the SQLite file beside
them is made again from them whenever it is lost.
"""
