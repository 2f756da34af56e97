"""The packaged agent of the demo and the tests: a small terminal program that obeys a script."""
