"""A queue worker: says when it is ready, then works until it is told to go."""
import os
import signal
import socket
import threading

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())

with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
    s.connect(os.environ["NOTIFY_SOCKET"])
    s.send(b"READY=1\nSTATUS=waiting for mail")

n = 0
while not stop.wait(5):
    n += 1
    print(f"sent {n} mails", flush=True)
print("mailer leaves", flush=True)
