"""What tests of AutoDist and of programs that use it need."""

from autodist.testing._certify import Certificate, Difference, certify, compare_recordings

__all__ = ["Certificate", "Difference", "certify", "compare_recordings"]
