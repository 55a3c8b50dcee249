// Runs an ONNX file in ONNX Runtime, again and again: node run_onnx.js MODEL. Speaks with onnxruntime.py over stdin
// and stdout: a line of JSON, then raw float32. A request is {input, output, dims}, a reply {dims} or {error}; the
// reply to the start is {}. NODE_PATH says where onnxruntime-node is.
const fs = require("fs");
const ort = require("onnxruntime-node");

function read(bytes) {
  for (let at = 0; at < bytes.length; ) {
    const count = fs.readSync(0, bytes, at, bytes.length - at);
    if (count === 0) return null;  // the end
    at += count;
  }
  return bytes;
}

function readLine() {
  let line = "";
  for (let byte; (byte = read(Buffer.alloc(1))) !== null && byte[0] !== 10; ) line += byte.toString("latin1");
  return line;
}

function write(bytes) {
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(1, bytes, at);
}

async function reply(session, {input, output, dims}) {
  const bytes = read(Buffer.alloc(4 * dims.reduce((a, b) => a * b)));
  const data = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  const y = (await session.run({[input]: new ort.Tensor("float32", data, dims)}))[output];
  write(Buffer.from(JSON.stringify({dims: y.dims}) + "\n"));
  write(Buffer.from(y.data.buffer, y.data.byteOffset, y.data.byteLength));
}

async function main([model]) {
  const session = await ort.InferenceSession.create(model, {intraOpNumThreads: 1, interOpNumThreads: 1});
  write(Buffer.from("{}\n"));
  for (let line; (line = readLine()) !== ""; ) await reply(session, JSON.parse(line));
}

main(process.argv.slice(2)).catch((error) => {
  write(Buffer.from(JSON.stringify({error: String(error)}) + "\n"));
  process.exit(1);
});
