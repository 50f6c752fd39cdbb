"""The two faults that end a worker: one before it starts, one at any time."""


class Unfit(Exception):
    """This data directory or configuration cannot be used as it is; nothing in it was changed.

    The text is one line for a person: what, where, and what to do.
    """


class LedgerBroken(BaseException):
    """A write to the ledger failed, so what it holds is not known: the process must end and launch nothing more.

    A BaseException, so that no `except Exception` can swallow it. A later write might succeed and hide the loss, which
    is why the first failure ends the process; the next start reads what the disk really holds.
    """
