"""Contracts as test suites: a project of its own subclasses one, and pytest collects the rest.

One file per contract: `_frameworks` for the handler of a framework.
"""

from udfs.testing._frameworks import HandlerContract, Refusal, Sample, assert_same_bits, records

__all__ = ["HandlerContract", "Refusal", "Sample", "assert_same_bits", "records"]
