// Reads a JSON list of objects of Kubernetes, and prints a line for each that its API's schema refuses.
// Exit code 1: one was refused. Schemas take unknown keys; the types, which tsc compares, do not.
import fs from "node:fs";

let refused = false;
for (const object of JSON.parse(fs.readFileSync(0))) {
  const { [object.kind]: Model } = await import(`kubernetes-models/${object.apiVersion}/${object.kind}`);
  try {
    new Model(object).validate();
  } catch (error) {
    console.log(`${object.kind} ${object.metadata?.name}: ${error.message}`);
    refused = true;
  }
}
process.exit(refused ? 1 : 0);
