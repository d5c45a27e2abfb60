// Serves requests on standard input, one JSON object a line, and answers with one (sessions.mjs). The clock is the
// processor's.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import * as ort from 'onnxruntime-web/wasm';
import { answering } from './sessions.mjs';

function clock() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

const answer = answering(ort, readFileSync, clock);

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))));
}
