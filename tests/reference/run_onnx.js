// Runs an ONNX file in ONNX Runtime: node run_onnx.js MODEL IMAGES C,H,W BATCH OUTPUT
// IMAGES and OUTPUT are raw float32; the graph gets the first BATCH images at once. NODE_PATH says where
// onnxruntime-node is.
const fs = require("fs");
const ort = require("onnxruntime-node");

async function main([model, images, shape, batch, output]) {
  const dims = [Number(batch), ...shape.split(",").map(Number)];
  const count = dims.reduce((a, b) => a * b);
  const bytes = fs.readFileSync(images).subarray(0, count * 4);
  const data = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  const session = await ort.InferenceSession.create(model, {intraOpNumThreads: 1, interOpNumThreads: 1});
  const results = await session.run({data: new ort.Tensor("float32", data, dims)});
  const {data: values} = results.embedding;
  fs.writeFileSync(output, Buffer.from(values.buffer, values.byteOffset, values.byteLength));
}

main(process.argv.slice(2)).catch((error) => { console.error(error); process.exit(1); });
