// Serves requests on standard input, one JSON object a line, and answers with one: loads models, runs them, times them.
//
//   {"load": "name", "path": "model.onnx", "level": "all"}              {"inputs": [...], "outputs": [...]}
//   {"run": "name", "feeds": {"x": {"type", "dims", "data": base64}}}   {"results": {...}}
//   {"turn": "name", "count": 3}                                        {"seconds": 0.01}, with what was fed last
//
// What a request fails of is {"error": "..."}.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import * as ort from 'onnxruntime-web/wasm';

ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  bool: Uint8Array,
};
const sessions = new Map();

function tensor({ type, dims, data }) {
  const bytes = new Uint8Array(Buffer.from(data, 'base64'));
  return new ort.Tensor(type, new ARRAYS[type](bytes.buffer), dims);
}

function plain({ type, dims, data }) {
  return { type, dims, data: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64') };
}

async function answer(asked) {
  if (asked.load !== undefined) {
    const options = { executionProviders: ['wasm'], graphOptimizationLevel: asked.level, logSeverityLevel: 4 };
    const session = await ort.InferenceSession.create(readFileSync(asked.path), options);
    sessions.set(asked.load, { session, feeds: {} });
    return { version: ort.env.versions.web, inputs: session.inputNames, outputs: session.outputNames };
  }
  if (asked.run !== undefined) {
    const held = sessions.get(asked.run);
    held.feeds = Object.fromEntries(Object.entries(asked.feeds).map(([name, value]) => [name, tensor(value)]));
    const results = await held.session.run(held.feeds);
    return { results: Object.fromEntries(Object.entries(results).map(([name, value]) => [name, plain(value)])) };
  }
  const { session, feeds } = sessions.get(asked.turn);
  const start = process.cpuUsage();
  for (let index = 0; index < asked.count; index++) await session.run(feeds);
  const spent = process.cpuUsage(start);
  return { seconds: (spent.user + spent.system) / 1e6 };
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify(await answer(JSON.parse(line))));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error?.message ?? error) }));
  }
}
