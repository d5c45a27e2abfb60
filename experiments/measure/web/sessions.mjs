// Answers requests to onnxruntime-web, on one thread: loads models, runs them, times them.
//
//   {"load": "name", "path": "model.onnx", "level": "all"}              {"inputs": [...], "outputs": [...]}
//   {"run": "name", "feeds": {"x": {"type", "dims", "data": base64}}}   {"results": {...}}
//   {"turn": "name", "count": 3}                                        {"seconds": 0.01}, with what was fed last
//
// What a request fails of is {"error": "..."}. `read` gives the bytes of a file, `clock` seconds.

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  bool: Uint8Array,
};
const BLOCK = 0x8000; // how many bytes a call takes as arguments

function tensor(ort, { type, dims, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  return new ort.Tensor(type, new ARRAYS[type](bytes.buffer), dims);
}

function plain({ type, dims, data }) {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  let text = '';
  for (let at = 0; at < bytes.length; at += BLOCK) text += String.fromCharCode(...bytes.subarray(at, at + BLOCK));
  return { type, dims, data: btoa(text) };
}

export function answering(ort, read, clock, provider = 'wasm') {
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'fatal';
  const sessions = new Map();

  async function answered(asked) {
    if (asked.load !== undefined) {
      const options = { executionProviders: [provider], graphOptimizationLevel: asked.level, logSeverityLevel: 4 };
      const before = sessions.get(asked.load);
      sessions.delete(asked.load);
      await before?.session.release();
      const session = await ort.InferenceSession.create(await read(asked.path), options);
      sessions.set(asked.load, { session, feeds: {} });
      return { version: ort.env.versions.web, inputs: session.inputNames, outputs: session.outputNames };
    }
    if (asked.run !== undefined) {
      const held = sessions.get(asked.run);
      held.feeds = Object.fromEntries(Object.entries(asked.feeds).map(([name, value]) => [name, tensor(ort, value)]));
      const results = await held.session.run(held.feeds);
      return { results: Object.fromEntries(Object.entries(results).map(([name, value]) => [name, plain(value)])) };
    }
    const { session, feeds } = sessions.get(asked.turn);
    const start = clock();
    for (let index = 0; index < asked.count; index++) await session.run(feeds);
    return { seconds: clock() - start };
  }

  return async (asked) => {
    try {
      return await answered(asked);
    } catch (error) {
      return { error: String(error?.message ?? error) };
    }
  };
}
