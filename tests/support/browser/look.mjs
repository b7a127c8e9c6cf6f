// Opens a page in a real browser as a reader does, and prints as JSON what it did and what an accessibility engine finds.
//
//   node look.mjs PREFIX CHROMIUM FILE SCREENSHOTS [WIDTH...]
//
// PREFIX is where npm installed puppeteer-core and axe-core. A screenshot of each width, light and dark, is left in
// SCREENSHOTS.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [prefix, chromium, file, screenshots, ...widths] = process.argv.slice(2);
const require = createRequire(join(prefix, "node_modules", "start.js"));
const puppeteer = (await import(pathToFileURL(require.resolve("puppeteer-core")))).default;
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const browser = await puppeteer.launch({
  executablePath: chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  protocolTimeout: 300000,
});
const said = { errors: [], requests: [], violations: [], overflow: {}, dialogs: 0, seconds: 0 };
try {
  const page = await browser.newPage();
  page.on("console", (message) => message.type() === "error" && said.errors.push(message.text()));
  page.on("pageerror", (error) => said.errors.push(String(error)));
  page.on("dialog", async (dialog) => { said.dialogs += 1; await dialog.dismiss(); });
  page.on("request", (request) => said.requests.push(request.url()));
  const began = Date.now();
  await page.goto(pathToFileURL(file).href, { waitUntil: "load", timeout: 120000 });
  said.seconds = (Date.now() - began) / 1000;
  said.title = await page.title();
  said.headings = await page.$$eval("h2", (found) => found.map((h) => h.textContent.trim()));
  said.landmarks = await page.$$eval("header, nav, main, footer", (found) => found.map((l) => l.tagName.toLowerCase()));
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    for (const width of widths.map(Number)) {
      await page.setViewport({ width, height: 900 });
      said.overflow[width] = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      await page.screenshot({ path: join(screenshots, `${scheme}-${width}.png`) });
    }
  }
  // On paper nothing can be opened, and dark would be ink.
  await page.emulateMediaType("print");
  said.paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  said.unprinted = await page.$$eval("details:not([open])", (found) =>
    found.filter((d) => d.scrollHeight < d.querySelector("summary").offsetHeight + 16).length);
  await page.emulateMediaType(null);
  await page.keyboard.press("Tab");
  said.first = await page.evaluate(() => document.activeElement.textContent.trim());
  // What hangs closed is looked at too; the engine is let past the page's own policy, which allows no script.
  const looked = await browser.newPage();
  await looked.setBypassCSP(true);
  for (const scheme of ["light", "dark"]) {
    await looked.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await looked.goto(pathToFileURL(file).href, { waitUntil: "load", timeout: 120000 });
    await looked.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
    await looked.evaluate(axe);
    const found = await looked.evaluate(async () => (await axe.run(document, { resultTypes: ["violations"] })).violations);
    for (const v of found) {
      said.violations.push({ scheme, id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.length, first: v.nodes[0].html.slice(0, 200) });
    }
  }
  const printed = await page.pdf({ format: "A4" });
  said.pdf = printed.length;
} finally {
  await browser.close();
}
console.log(JSON.stringify(said));
