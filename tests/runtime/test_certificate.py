"""Connections whose ends know each other by certificates."""

import contextlib
import socket
import ssl
import threading

import pytest

from autodist.coordination._certificate import encrypted, make_certificate, trusting

OWN, OTHER, STRANGE = make_certificate(), make_certificate(), make_certificate()


def asked(call):
    """What comes of an end that answers whoever shows the certificate `OTHER`, and of a caller; bytes or an error."""
    here, there = socket.socketpair()
    told = {}

    def answer():
        try:
            with encrypted(here, OWN, OTHER.text, is_calling=False) as connection:
                connection.sendall(b"secret" + connection.recv(10))
                told["answered"] = connection.recv(10)
        except OSError as error:
            told["answered"] = error
        finally:
            here.close()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with call(there) as connection:
            connection.sendall(b" value")
            told["heard"] = connection.recv(100)
    except OSError as error:
        told["heard"] = error
    there.close()
    thread.join()
    return told["answered"], told["heard"]


def test_both_ends_show_their_certificates():
    answered, heard = asked(lambda end: encrypted(end, OTHER, OWN.text, is_calling=True))
    assert (answered, heard) == (b"", b"secret value")


@pytest.mark.parametrize(
    "call",
    [
        lambda end: trusting(OWN.text).wrap_socket(end),
        lambda end: encrypted(end, STRANGE, OWN.text, is_calling=True),
        lambda end: encrypted(end, OTHER, STRANGE.text, is_calling=True),
        lambda end: contextlib.nullcontext(end),
    ],
    ids=["shows none", "shows another", "knows another", "speaks in the clear"],
)
def test_who_is_another_hears_nothing(call):
    answered, heard = asked(call)
    assert isinstance(answered, ssl.SSLError)
    assert isinstance(heard, OSError) or b"secret" not in heard
