// A web app that knows nothing of Coppice: it listens on PORT, which is the path of a Unix socket here.
const http = require("node:http");

const me = process.env.COPPICE_PATH || "web";
const server = http.createServer((req, res) => {
  if (req.url === "/healthz") return res.end("ok\n");
  res.end(`hello from ${me}, pid ${process.pid}\n`);
});

server.listen(process.env.PORT, () => console.log(`${me} listens on ${process.env.PORT}`));

// Leave when asked: stop accepting, let open requests finish.
process.on("SIGTERM", () => {
  console.log("told to go");
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
