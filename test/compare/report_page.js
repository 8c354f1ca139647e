// SPDX-License-Identifier: Apache-2.0
// report_page.js PLAYWRIGHT DIR PICTURES: the page of a comparison in Debian's chromium, offline.
//
// DIR has report.html and report.json.  Fails if a chart is not drawn, if its data are not those of
// report.json, if anything is logged as an error or asked of the network, if something sticks out
// of the window, or if 60 runs take longer than 100 ms to redraw.
"use strict";
const assert = require("assert");
const fs = require("fs");
const path = require("path");
const [, , playwright, dir, pictures] = process.argv;
const { chromium } = require(playwright);

const report = JSON.parse(fs.readFileSync(path.join(dir, "report.json"), "utf8"));
const near = (a, b, what) => assert.ok(Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(b)), `${what}: ${a} is not ${b}`);

async function open(browser, width, height, scheme) {
	const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, offline: true });
	const page = await context.newPage();
	const trouble = [];
	// reading pixels back is this test's doing
	page.on("console", (m) => { if ((m.type() === "error" || m.type() === "warning") && !/getImageData/.test(m.text())) trouble.push(m.text()); });
	page.on("pageerror", (e) => trouble.push(String(e)));
	page.on("request", (r) => { if (!/^(file|data|blob):/.test(r.url())) trouble.push("asks for " + r.url()); });
	await page.goto("file://" + path.resolve(dir, "report.html"));
	await page.waitForFunction(() => window.comparison && window.comparison.charts.curves);
	return { page, context, trouble };
}

// How much of a canvas has another colour than its corner.
const painted = (page, id) => page.evaluate((i) => {
	const c = document.getElementById(i);
	const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	let n = 0;
	for (let k = 0; k < d.length; k += 4) n += d[k + 3] > 40;
	return n / (d.length / 4);
}, id);

async function looks(page) {
	for (const id of await page.$$eval("canvas", (l) => l.map((c) => c.id)))
		assert.ok((await painted(page, id)) > 0.003, `chart ${id} is empty`);
	const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
	assert.ok(over <= 0, `the page is ${over} pixels wider than the window`);
	// text that does not fit its box, where nothing scrolls
	const clipped = await page.evaluate(() => [...document.querySelectorAll("h1, h2, p, li, summary, button, label")]
		.filter((e) => e.offsetParent && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline").map((e) => e.textContent.slice(0, 60)));
	assert.deepStrictEqual(clipped, []);
	// neighbours in the bar of controls do not overlap
	const boxes = await page.$$eval("#controls > *", (l) => l.map((e) => e.getBoundingClientRect()).map((r) => [r.left, r.top, r.right, r.bottom]));
	boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) =>
		assert.ok(a[2] <= b[0] + 1 || b[2] <= a[0] + 1 || a[3] <= b[1] + 1 || b[3] <= a[1] + 1, "controls overlap")));
}

// Ink against paper: text can be read in both schemes.
async function contrast(page) {
	const ratio = await page.evaluate(() => {
		const light = (c) => { const [r, g, b] = c.match(/[\d.]+/g).map(Number).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
		const s = getComputedStyle(document.body), a = light(s.color), b = light(s.backgroundColor);
		return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
	});
	assert.ok(ratio > 7, `contrast ${ratio}`);
}

// The page has the very report, and the curves are means of its runs.
async function data(page) {
	assert.deepStrictEqual(await page.evaluate(() => { const r = JSON.parse(document.getElementById("report").textContent); return r; }), report);
	const sets = await page.evaluate(() => window.comparison.charts.curves.data.datasets.map((s) => ({ label: s.label, data: s.data })));
	const state = await page.evaluate(() => window.comparison.state);
	const factor = state.y === "accuracy" ? 100 : 1;
	let seen = 0;
	for (const row of report.rows) {
		const set = sets.find((s) => s.label === row.label);
		const runs = row.runs.filter((r) => !r.diverged);
		if (!set || !runs.length) continue;
		const ends = runs.map((r) => r.curve[state.x][r.curve[state.x].length - 1]);
		if (Math.max(...ends) - Math.min(...ends) > 1e-9) continue; // ends at different places
		const mean = runs.reduce((s, r) => s + r.curve[state.y][r.curve[state.y].length - 1], 0) / runs.length;
		near(set.data[set.data.length - 1].y, factor * mean, `the end of ${row.label}`);
		seen++;
	}
	assert.ok(seen >= 3, "curves were compared");
	for (const row of report.rows) {
		const cells = await page.$$eval("#results tbody tr", (l, label) => { const tr = l.find((t) => t.querySelector("span").textContent === label); return tr && [...tr.children].map((c) => c.textContent); }, row.label);
		assert.ok(cells, `no row ${row.label}`);
		const wild = row.diverged === report.seeds;
		const m = row.summary[report.measure].mean;
		if (!wild && m !== null) {
			const shown = cells.slice(1).find((c) => c.includes("±"));
			const unit = report.measures[report.measure].unit;
			near(parseFloat(shown), unit === "share" ? +(100 * m).toFixed(2) : +m.toFixed((shown.match(/^[\d]+\.?(\d*)/) || ["", ""])[1].length), `the figure of ${row.label}`);
		}
	}
}

async function switches(page) {
	for (const [value, title] of [["updates", "updates of the parameters"], ["time", "virtual time, seconds"], ["bytes", "bytes sent by all"], ["epochs", "epochs (passes over the data)"]]) {
		await page.click(`#controls button[data-value=${value}]`);
		const [text, last] = await page.evaluate(() => { const c = window.comparison.charts.curves; return [c.options.scales.x.title.text, c.data.datasets[0].data.at(-1).x]; });
		assert.strictEqual(text, title);
		assert.ok(last > 0);
		assert.ok((await painted(page, "curves")) > 0.003);
	}
	const before = await page.evaluate(() => window.comparison.charts.curves.data.datasets.length);
	await page.click("#results tbody tr:nth-child(2) .name");
	assert.ok((await page.evaluate(() => window.comparison.charts.curves.data.datasets.length)) < before, "a method is hidden");
	await page.click("#results tbody tr:nth-child(2) .name");
	await page.click("#results tbody tr:first-child a");
	assert.ok(await page.evaluate(() => document.getElementById("job-0").open), "the job is one click away");
	assert.ok((await page.textContent("#job-0 pre")).includes("strategy:"));
}

// The box "seed bands" draws a band for every curve, however many there are, and takes them away.
async function bands(page) {
	const count = () => page.evaluate(() => {
		const sets = window.comparison.charts.curves.data.datasets;
		const ofBand = sets.filter((s) => s.isBand);
		return { lines: sets.length - ofBand.length, bands: ofBand.length, filled: ofBand.filter((s) => s.fill).length, wide: ofBand.filter((s, k) => k % 2 && s.data.some((p, i) => p.y > ofBand[k - 1].data[i].y)).length };
	});
	const hint = () => page.textContent("#curves-hint");
	await page.uncheck("#band");
	const without = await count(), bare = await painted(page, "curves");
	assert.ok(without.lines >= 10, `${without.lines} curves`);
	assert.strictEqual(without.bands, 0);
	assert.ok(!/shaded/.test(await hint()));
	await page.check("#band");
	const all = await count();
	assert.strictEqual(all.bands, 2 * all.lines);
	assert.strictEqual(all.filled, all.lines);
	assert.ok(all.wide >= all.lines / 2, `${all.wide} bands are wider than a line`);
	assert.ok(/shaded/.test(await hint()));
	assert.ok((await painted(page, "curves")) > bare, "bands are painted");
	await page.uncheck("#band");
	assert.strictEqual((await count()).bands, 0);
}

// What the seeds do not resolve has its interval, and no colour of praise or blame.
async function verdicts(page) {
	const open = report.rows.filter((r) => r.against_best && r.against_best.verdict === "not resolved");
	const cells = await page.$$eval("#results td.open", (l) => l.map((e) => [e.textContent, getComputedStyle(e).color]));
	assert.strictEqual(cells.length, open.length);
	for (const [text, colour] of cells) {
		assert.ok(text.includes("not resolved with " + report.seeds + " seeds"), text);
		const [r, g, b] = colour.match(/\d+/g).map(Number);
		assert.ok(Math.max(r, g, b) - Math.min(r, g, b) < 40, colour);
	}
	const best = await page.$$eval("#results tr.best td", (l) => l.map((e) => e.textContent));
	assert.ok(best.includes(report.resolved ? "best" : "best mean"));
}

async function speed(page) {
	const runs = report.rows.length * report.seeds;
	const ms = await page.evaluate(() => {
		const all = [];
		for (let k = 0; k < 9; k++) { const t = performance.now(); window.comparison.redraw(); all.push(performance.now() - t); }
		return all.sort((a, b) => a - b)[4];
	});
	console.log(`${runs} runs redraw in ${ms.toFixed(1)} ms`);
	assert.ok(runs >= 60, `${runs} runs`);
	assert.ok(ms < 100, `${ms} ms`);
}

(async () => {
	const bytes = fs.statSync(path.join(dir, "report.html")).size;
	console.log(`the page has ${bytes} bytes`);
	assert.ok(bytes <= 3e6);
	const browser = await chromium.launch({ executablePath: process.env.TW_CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox"] });
	for (const scheme of ["light", "dark"])
		for (const width of [360, 1600]) {
			const { page, context, trouble } = await open(browser, width, 900, scheme);
			await looks(page);
			await contrast(page);
			await data(page);
			await page.screenshot({ path: path.join(pictures, `${scheme}-${width}.png`), fullPage: true });
			await verdicts(page);
			if (width === 1600) await switches(page);
			if (width === 1600) await bands(page);
			if (width === 1600 && scheme === "light") await speed(page);
			await looks(page);
			assert.deepStrictEqual(trouble, []);
			await context.close();
		}
	const { page, context, trouble } = await open(browser, 1000, 900, "dark");
	await page.emulateMedia({ media: "print" });
	await page.pdf({ path: path.join(pictures, "print.pdf") });
	assert.deepStrictEqual(trouble, []);
	await context.close();
	await browser.close();
	console.log("the page is as it should be");
})().catch((e) => { console.error(e.message || e); process.exit(1); });
