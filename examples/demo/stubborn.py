"""Will not leave when asked."""
import signal

signal.signal(signal.SIGTERM, lambda *_: print("no, I stay", flush=True))
print("I am here to stay", flush=True)
while True:
    signal.pause()
