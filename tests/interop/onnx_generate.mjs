// What transformers.js makes of an exported folder, on files alone: node onnx_generate.mjs MODULE FOLDER < texts as JSON
import { readFileSync } from "node:fs";

const [module, folder] = process.argv.slice(2);
const { env, AutoConfig, AutoTokenizer, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification } = await import(module);
env.allowRemoteModels = false;
const tokenizer = await AutoTokenizer.from_pretrained(folder);
const config = await AutoConfig.from_pretrained(folder);
const texts = JSON.parse(readFileSync(0, "utf8")), options = { dtype: "fp32" };
let said;
if (config.is_encoder_decoder) {
  const model = await AutoModelForSeq2SeqLM.from_pretrained(folder, options);
  said = [];
  for (const text of texts) { // one by one: in a batch it goes on writing behind the end of a sentence
    const ids = await model.generate({ ...tokenizer(text), num_beams: 1 });
    said.push(tokenizer.batch_decode(ids, { skip_special_tokens: true })[0]);
  }
} else {
  const model = await AutoModelForSequenceClassification.from_pretrained(folder, options);
  said = (await model(tokenizer(texts, { padding: true }))).logits.tolist();
}
console.log(JSON.stringify(said));
