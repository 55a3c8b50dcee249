// Reads a JSON list of Kubernetes objects, and prints a line for each object that the API's schema rejects. Then the exit
// code is 1. Schemas accept unknown keys. The API's TypeScript types reject them; tsc checks the objects against these.
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
