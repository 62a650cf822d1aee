"""A small HTTP app from Python's standard library. PORT is a free loopback port that Coppice chose."""
import http.server
import os


class Notes(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"no notes yet\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Notes).serve_forever()
