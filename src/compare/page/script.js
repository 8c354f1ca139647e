// The page of a comparison: tables and charts, all of them from the report in this file.
"use strict";
(function () {
	const report = JSON.parse(document.getElementById("report").textContent);
	const kind = report.folds ? "fold" : "seed"; // what the runs of a row differ by
	const rows = report.rows.slice().sort((a, b) => a.rank - b.rank);
	const sim = report.world === "sim";
	const clock = sim ? "virtual time" : "time";
	const measure = report.measures[report.measure];
	const accurate = rows.some((r) => r.summary.accuracy.mean !== null);
	const byId = (id) => document.getElementById(id);
	const dark = window.matchMedia("(prefers-color-scheme: dark)");
	const BANDS = 8; // more of them hide each other, and are drawn only if they are asked for
	let printing = false;

	// --- small tools ---

	function make(tag, attributes, ...children) {
		const e = document.createElement(tag);
		for (const [name, value] of Object.entries(attributes || {})) {
			if (name === "onclick" || name === "onchange") e[name] = value;
			else if (value !== null && value !== false) e.setAttribute(name, value);
		}
		for (const c of children) if (c !== null) e.append(c);
		return e;
	}

	const isNumber = (x) => typeof x === "number" && isFinite(x);

	function grouped(x) {
		return Math.round(x).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
	}

	function bytes(x) {
		const units = ["B", "kB", "MB", "GB", "TB"];
		let k = 0;
		for (; Math.abs(x) >= 999.5 && k < 4; k++) x /= 1000;
		return short(x) + " " + units[k];
	}

	// Three digits, and no exponent where people would not write one.
	function short(x) {
		if (x === 0) return "0";
		const a = Math.abs(x);
		if (a >= 100000 || a < 0.001) return x.toPrecision(3);
		return a >= 1000 ? grouped(x) : String(+x.toPrecision(3));
	}

	function show(x, unit) {
		if (!isNumber(x)) return "–";
		if (unit === "share") return (100 * x).toFixed(2) + " %";
		if (unit === "bytes") return bytes(x);
		if (unit === "seconds") return short(x) + " s";
		if (unit === "samples per second") return short(x) + "/s";
		return String(+x.toPrecision(4));
	}

	// Two digits of the deviation, and as many of the mean as it leaves sure; the unit once.
	function plusMinus(mean, deviation, unit) {
		if (!isNumber(deviation) || unit === "bytes" || unit === "samples per second")
			return show(mean, unit) + (isNumber(deviation) ? " ± " + show(deviation, unit) : "");
		if (unit === "share") return (100 * mean).toFixed(2) + " ± " + (100 * deviation).toFixed(2) + " %";
		const name = unit === "seconds" ? " s" : "";
		if (Math.abs(mean) > 1e6 || deviation > 1e6) return mean.toPrecision(3) + " ± " + deviation.toPrecision(2) + name;
		const places = deviation > 0 ? Math.max(0, Math.min(12, 1 - Math.floor(Math.log10(deviation)))) : 3;
		return mean.toFixed(places) + " ± " + deviation.toFixed(places) + name;
	}

	function spread(s, unit) {
		return isNumber(s.mean) ? plusMinus(s.mean, s.deviation, unit) : "–";
	}

	function difference(a, unit) {
		const text = plusMinus(Math.abs(a.difference), a.half, unit);
		return (a.difference < 0 ? "−" : "+") + (unit === "share" ? text.replace(" %", " points") : text);
	}

	// --- how a method looks: colour, dashes and marker, each of which tells it apart ---

	const light = ["#0060a8", "#c43c00", "#00705a", "#a3338a", "#8c5109", "#5b3fc4", "#4d4d4d"];
	const bright = ["#6cb6ff", "#ff9466", "#4fd1b0", "#e58ad0", "#d9a35c", "#b3a0ff", "#c8ccd2"];
	const dashes = [[], [7, 4], [2, 3], [11, 4, 2, 4], [5, 2, 1, 2, 1, 2]];
	const markers = ["circle", "triangle", "rect", "rectRot", "crossRot", "star"];
	rows.forEach((r, k) => {
		r.look = k;
		r.visible = rows.length <= 12 || k < 10 || r.baseline;
	});
	const isDark = () => dark.matches && !printing;
	const colour = (r) => (isDark() ? bright : light)[r.look % 7];
	const dash = (r) => dashes[r.look % 5];
	const marker = (r) => markers[r.look % 6];
	const ink = () => (isDark() ? "#d5d9de" : "#30353b");
	const grid = () => (isDark() ? "#3a4048" : "#dfe3e8");
	const faint = (c, share) => c + Math.round(share * 255).toString(16).padStart(2, "0");

	function swatch(r) {
		const ns = "http://www.w3.org/2000/svg";
		const svg = document.createElementNS(ns, "svg");
		const part = (tag, attributes) => {
			const e = document.createElementNS(ns, tag);
			for (const [n, v] of Object.entries(attributes)) e.setAttribute(n, v);
			svg.append(e);
		};
		const c = colour(r), p = { fill: "var(--paper)", stroke: c, "stroke-width": 1.6 };
		svg.setAttribute("width", 40);
		svg.setAttribute("height", 14);
		svg.setAttribute("aria-hidden", "true");
		part("path", { d: "M1 7H39", stroke: c, "stroke-width": 2, fill: "none", "stroke-dasharray": dash(r).join(" ") });
		const shapes = {
			rect: "M16.5 3.5h7v7h-7z", triangle: "M20 2l4.6 8.4h-9.2z", rectRot: "M20 2l5 5l-5 5l-5-5z",
			crossRot: "M16.5 3.5l7 7m0-7l-7 7", star: "M20 2v10M15.6 4.5l8.8 5m0-5l-8.8 5",
		};
		if (marker(r) === "circle") part("circle", { cx: 20, cy: 7, r: 4, ...p });
		else part("path", { d: shapes[marker(r)], ...p });
		return svg;
	}

	// --- text ---

	function header() {
		document.title = report.title + " – comparison";
		byId("title").textContent = report.title;
		const worlds = { sim: "in the simulator, with virtual time", threads: "in threads", processes: "in processes" };
		byId("subtitle").textContent =
			`${rows.length} methods, ${report.seeds} ${report.seeds === 1 ? kind : kind + "s each"}, ${worlds[report.world]}; ranked by ${measure.title}`;
		const box = byId("findings");
		report.findings.forEach((t) => box.append(make("p", null, t)));
		if (report.notes.length)
			box.append(make("ul", { id: "notes" }, ...report.notes.map((t) => make("li", null, t))));
		byId("results-hint").textContent =
			`± is the standard deviation over ${kind}s. Differences are means over pairs of the same ${kind}, with their 95 % confidence interval (Student’s t); ` +
			`“not resolved” means that the interval contains 0: these ${kind}s do not show which one is better. Press a name to show or hide its curve.`;
		byId("footer").textContent =
			`Made by thalweg ${report.thalweg} (${report.isa}). All evaluations are in curves.csv, all runs in report.csv, and everything on this page in report.json.`;
	}

	// --- results ---

	function columns() {
		const list = [];
		const add = (title, sub, cell, kind) => list.push({ title, sub, cell, kind });
		const plain = (name) => (r) => show(r.summary[name].mean, report.measures[name].unit);
		const seen = (name) => rows.some((r) => isNumber(r.summary[name].mean));
		const tuned = rows[0].tuned.filter(() => true);
		tuned.forEach((t, k) => add("best", t.path.split(".").pop(), (r) => r.tuned[k].value + (r.tuned[k].edge ? " !" : "")));
		add(measure.title, "mean ± deviation", (r) => (r.diverged === report.seeds ? "diverged" : spread(r.summary[report.measure], measure.unit)));
		add("against the best", "difference", (r) => {
			const a = r.against_best;
			if (r.label === report.best) return report.resolved ? "best" : "best mean";
			if (!a) return "–";
			const by = isNumber(a.half) ? difference(a, measure.unit) : "";
			const word = a.verdict === "not resolved" ? `not resolved with ${report.seeds} ${kind}s` : isNumber(a.half) ? "" : a.verdict;
			return [by, word ? make("small", { title: a.reason }, word) : ""];
		}, "verdict");
		if (report.target) add("reached", "the target", (r) => r.summary["time-to-target"].n + " of " + report.seeds);
		if (report.target && report.measure !== "time-to-target")
			add("time to target", clock, (r) => spread(r.summary["time-to-target"], "seconds"));
		if (rows.some((r) => r.diverged)) add("diverged", "runs", (r) => (r.diverged ? r.diverged + " of " + report.seeds : "–"));
		const score = accurate ? "accuracy" : "loss";
		if (report.measure !== score) add(score, "at the end", (r) => spread(r.summary[score], report.measures[score].unit));
		if (accurate) add("accuracy", "best", plain("best-accuracy"));
		if (isNumber(report.equal_time)) add(score, "after " + short(report.equal_time) + " s", plain(score + "-at-time"));
		if (isNumber(report.equal_epochs)) add(score, "after " + short(report.equal_epochs) + " epochs", plain(score + "-at-epochs"));
		add("samples per s", sim ? "virtual" : "steady", (r) => (isNumber(r.summary["samples-per-second"].mean) ? short(r.summary["samples-per-second"].mean) : "–"));
		add("length", clock, plain("seconds"));
		add("bytes sent", "in all", plain("bytes"));
		add("staleness", "mean", (r) => (isNumber(r.summary.staleness.mean) ? short(r.summary.staleness.mean) : "–"));
		if (seen("gap")) add("gap", "root mean square", (r) => (isNumber(r.summary.gap.mean) ? short(r.summary.gap.mean) : "–"));
		if (seen("idle")) add("idle", "workers’ time", (r) => (isNumber(r.summary.idle.mean) ? Math.round(100 * r.summary.idle.mean) + " %" : "–"));
		return list;
	}

	function results() {
		const list = columns();
		const table = byId("results");
		const head = make("tr", null, make("th", { scope: "col" }, "method"),
			...list.map((c) => make("th", { scope: "col" }, c.title, make("small", null, c.sub))),
			make("th", { scope: "col", class: "noprint" }, "job"));
		table.append(make("thead", null, head));
		const body = make("tbody");
		rows.forEach((r, k) => {
			const button = make("button", { class: "name", type: "button", "aria-pressed": r.visible,
				onclick: () => { r.visible = !r.visible; marks(); draw(); } });
			r.button = button;
			const tr = make("tr", { class: r.label === report.best ? "best" : null }, make("th", { scope: "row" }, button));
			list.forEach((c) => {
				const text = c.cell(r);
				const verdict = c.kind === "verdict" && r.against_best ? r.against_best.verdict : "";
				tr.append(make("td", { class: verdict === "worse" ? "worse" : verdict === "not resolved" ? "open" : null }, ...[text].flat()));
			});
			tr.append(make("td", { class: "noprint" }, make("a", { href: "#job-" + k, onclick: () => { byId("job-" + k).open = true; } }, "job")));
			r.tr = tr;
			body.append(tr);
		});
		table.append(body);
		marks();
	}

	function marks() {
		rows.forEach((r) => {
			r.button.replaceChildren(make("i", { class: "box", "aria-hidden": "true" }, r.visible ? "✓" : ""), swatch(r), make("span", null, r.label));
			r.button.setAttribute("aria-pressed", r.visible);
			r.tr.classList.toggle("off", !r.visible);
		});
	}

	function settings() {
		const table = byId("settings");
		if (!report.settings.length) {
			byId("settings-section").remove();
			document.querySelector(".beside").classList.add("alone");
			return;
		}
		table.append(make("thead", null, make("tr", null, make("th", { scope: "col" }, "method"),
			...report.settings.map((p) => make("th", { scope: "col" }, p.split(".").pop(), make("small", null, p.split(".").slice(0, -1).join(".")))))));
		const body = make("tbody");
		rows.forEach((r) => body.append(make("tr", null, make("th", { scope: "row" }, r.label),
			...r.settings.map((t) => make("td", null, t === null ? "–" : t === "" ? "none" : t)))));
		table.append(body);
	}

	function tuning() {
		if (!report.tried.length) {
			byId("tuning-section").remove();
			return;
		}
		const table = byId("tuning"), tried = report.tried;
		const name = (values) => values.map((v) => v.value).join(", ");
		const c = report.cost.tuning;
		byId("tuning-hint").textContent =
			`Every method began with the same values of ${tried[0].map((v) => v.path).join(" and ")}, ` +
			`with ${report.tune_seeds} ${report.tune_seeds === 1 ? "seed" : "seeds"} of its own` +
			`${accurate ? ", scored on a validation set and never on the test set" : ""}. ` +
			"A method whose best value was the first or the last of a grid tried further ones beyond it. " +
			`That took ${grouped(c.runs)} runs and ${grouped(c.samples)} samples beside the ${grouped(report.cost.comparison.runs)} runs and ${grouped(report.cost.comparison.samples)} samples of the comparison. ` +
			"The chosen value is marked with a star, and with ! if it lies at the edge of what was tried.";
		table.append(make("thead", null, make("tr", null, make("th", { scope: "col" }, "method"),
			...tried.map((t) => make("th", { scope: "col" }, name(t))))));
		const body = make("tbody");
		rows.forEach((r) => {
			const best = name(r.tuned), edge = r.tuned.some((v) => v.edge);
			body.append(make("tr", null, make("th", { scope: "row" }, r.label), ...tried.map((values) => {
				const t = r.tries.find((o) => name(o.values) === name(values));
				const chosen = name(values) === best;
				const text = !t ? "" : t.diverged ? "diverged" : spread(t, measure.unit);
				return make("td", { class: chosen ? "chosen" : null }, text + (chosen ? (edge ? " *!" : " *") : ""));
			})));
		});
		table.append(body);
	}

	// --- curves ---

	// Runs of equal length in time are best compared in time, others by what they saw.
	const ends = (name) => rows.filter((r) => !r.baseline).map((r) => r.summary[name].mean).filter(isNumber);
	const uneven = (name) => Math.max(...ends(name)) / Math.min(...ends(name));
	const timed = /time/.test(report.measure) || (uneven("seconds") < 1.1 && uneven("epochs") > 1.5);
	const state = { x: timed ? "time" : "epochs", y: accurate ? "accuracy" : "loss", log: !accurate, band: rows.filter((r) => r.visible).length <= BANDS, worker: -1 };
	const axes = {
		epochs: { name: "epochs", title: "epochs (passes over the data)" },
		updates: { name: "updates", title: "updates of the parameters" },
		time: { name: clock, title: clock + ", seconds" },
		bytes: { name: "bytes", title: "bytes sent by all" },
	};

	function points(run, x, y) {
		const list = [];
		run.curve[x].forEach((at, k) => {
			const v = run.curve[y][k];
			if (isNumber(at) && isNumber(v)) list.push([at, v]);
		});
		return list.sort((a, b) => a[0] - b[0]);
	}

	// The value of a curve between two of its points; null outside.
	function at(list, x) {
		let low = 0, high = list.length - 1;
		if (high < 0 || x < list[0][0] || x > list[high][0]) return null;
		while (high - low > 1) {
			const middle = (low + high) >> 1;
			if (list[middle][0] <= x) low = middle; else high = middle;
		}
		const [a, b] = [list[low], list[high]];
		return b[0] === a[0] ? b[1] : a[1] + ((b[1] - a[1]) * (x - a[0])) / (b[0] - a[0]);
	}

	// Mean, least and greatest over the seeds, at `n` places that the curves share.
	function band(row, x, y, n) {
		const runs = row.runs.filter((r) => !r.diverged).map((r) => points(r, x, y)).filter((l) => l.length);
		const used = runs.length ? runs : row.runs.map((r) => points(r, x, y)).filter((l) => l.length);
		if (!used.length) return [];
		if (used.length === 1) return used[0].map(([a, v]) => ({ x: a, mean: v, low: v, high: v }));
		const first = Math.max(...used.map((l) => l[0][0])), last = Math.min(...used.map((l) => l[l.length - 1][0]));
		const most = Math.max(...used.map((l) => l.length));
		const places = Math.max(2, Math.min(n, 2 * most));
		const out = [];
		for (let k = 0; k < places && last >= first; k++) {
			const a = first + ((last - first) * k) / (places - 1);
			const v = used.map((l) => at(l, k === places - 1 ? last : a)).filter(isNumber);
			if (v.length) out.push({ x: a, mean: v.reduce((s, t) => s + t, 0) / v.length, low: Math.min(...v), high: Math.max(...v) });
		}
		return out;
	}

	const kept = new Map();
	function cached(row, n) {
		const key = [row.look, state.x, state.y, n].join();
		if (!kept.has(key)) kept.set(key, band(row, state.x, state.y, n));
		return kept.get(key);
	}

	const scale = () => (state.y === "accuracy" ? 100 : 1);

	function curveSets() {
		const shown = rows.filter((r) => r.visible);
		const bands = state.band && report.seeds > 1;
		const n = Math.max(20, Math.min(200, Math.floor(20000 / Math.max(1, shown.length) / (bands ? 3 : 1))));
		const sets = [];
		shown.forEach((r) => {
			const list = cached(r, n), c = colour(r), f = scale();
			const fine = (v) => !state.log || v > 0;
			const line = (key) => list.filter((p) => fine(p[key])).map((p) => ({ x: p.x, y: f * p[key] }));
			const every = Math.max(1, Math.floor(list.length / 6));
			sets.push({
				label: r.label, data: line("mean"), borderColor: c, backgroundColor: isDark() ? "#14171a" : "#ffffff",
				borderDash: dash(r), borderWidth: 2, pointStyle: marker(r), pointBorderColor: c, pointBorderWidth: 1.6,
				pointRadius: list.map((p, k) => (k % every === (r.look * 2) % every || list.length < 8 ? 4 : 0)), pointHitRadius: 6, order: 1,
			});
			if (!bands || list.length < 2) return;
			const edge = { borderWidth: 0, pointRadius: 0, pointHitRadius: 0, backgroundColor: faint(c, 0.16), borderColor: c, order: 2, isBand: true };
			sets.push({ ...edge, label: r.label + " (least)", data: line("low"), fill: false });
			sets.push({ ...edge, label: r.label + " (greatest)", data: line("high"), fill: "-1" });
		});
		return sets;
	}

	const tick = (v) => (Math.abs(v) >= 1e6 || (v !== 0 && Math.abs(v) < 1e-4) ? Number(v).toExponential(0) : String(+Number(v).toPrecision(6)));

	function axis(title, format, more) {
		return {
			title: { display: true, text: title, color: ink() }, grid: { color: grid(), borderColor: ink() },
			ticks: { color: ink(), callback: format, maxRotation: 0, autoSkipPadding: 12 }, ...more,
		};
	}

	const common = () => ({
		animation: false, responsive: true, maintainAspectRatio: false, normalized: true,
		plugins: { legend: { display: false }, tooltip: { filter: (i) => !i.dataset.isBand } },
	});

	// 1, 2, 5, 10, ...: what people can read from a logarithmic axis.
	const logTick = (v) => { const d = v / Math.pow(10, Math.floor(Math.log10(v) + 1e-9)); return [1, 2, 5].some((g) => Math.abs(d - g) < 1e-6) ? tick(v) : ""; };

	const charts = {};
	function chart(id, config) {
		const old = charts[id];
		if (old) {
			old.data = config.data;
			old.options = config.options;
			old.update("none");
		} else {
			charts[id] = new Chart(byId(id), config);
		}
	}

	function curves() {
		const o = common(), a = axes[state.x], what = state.y === "accuracy" ? "accuracy on the test set, %" : "loss on the test set";
		const format = state.x === "bytes" ? (v) => bytes(v) : tick;
		o.parsing = false;
		o.interaction = { mode: "nearest", intersect: false };
		o.scales = {
			x: { type: "linear", ...axis(a.title, format) },
			y: state.log ? { type: "logarithmic", ...axis(what + " (logarithmic)", logTick) } : { type: "linear", ...axis(what, tick) },
		};
		o.plugins.tooltip.callbacks = {
			label: (i) => i.dataset.label + ": " + (state.y === "accuracy" ? i.parsed.y.toFixed(2) + " %" : String(+i.parsed.y.toPrecision(4))),
			title: (i) => (i.length ? (state.x === "bytes" ? bytes(i[0].parsed.x) + " sent" : short(i[0].parsed.x) + " " + (state.x === "time" ? "s" : state.x)) : ""),
		};
		chart("curves", { type: "line", data: { datasets: curveSets() }, options: o });
		byId("curves").setAttribute("aria-label", `${what} against ${a.title}`);
		byId("curves-hint").textContent =
			(report.seeds > 1 ? `Lines are means over ${kind}s` + (state.band ? `; shaded is the range from the least to the greatest ${kind}` : "") + ". " : "") +
			"Dashes and markers tell lines apart as well as colours; the table above has both.";
	}

	function choice(title, options, key, after) {
		const group = make("div", { class: "group", role: "group", "aria-label": title }, make("span", null, title));
		for (const [value, name] of options)
			group.append(make("button", { type: "button", "data-value": value, "aria-pressed": state[key] === value, onclick: (e) => {
				state[key] = value;
				for (const b of group.querySelectorAll("button")) b.setAttribute("aria-pressed", b === e.currentTarget);
				after();
			} }, name));
		return group;
	}

	function controls() {
		const box = byId("controls");
		if (accurate) box.append(choice("show", [["accuracy", "accuracy"], ["loss", "loss"]], "y", () => {
			state.log = state.y === "loss";
			byId("log").checked = state.log;
			curves();
		}));
		box.append(choice("against", Object.entries(axes).map(([k, a]) => [k, a.name]), "x", curves));
		const tickbox = (id, text, key) => {
			const input = make("input", { type: "checkbox", id, onchange: (e) => { state[key] = e.target.checked; curves(); } });
			input.checked = state[key];
			box.append(make("label", null, input, text));
		};
		tickbox("log", "logarithmic", "log");
		if (report.seeds > 1) tickbox("band", kind + " bands", "band");
	}

	// --- staleness, load, time ---

	function staleness() {
		const some = rows.filter((r) => r.staleness.length > 1);
		if (!some.length) {
			byId("staleness-section").remove();
			return false;
		}
		const o = common(), all = (r) => r.staleness.reduce((s, n) => s + n, 0) || 1;
		const shown = rows.filter((r) => r.visible && r.staleness.length);
		o.scales = { x: { type: "linear", min: 0, ...axis("staleness, updates", tick) }, y: { type: "logarithmic", ...axis("share of contributions, % (logarithmic)", logTick) } };
		o.parsing = false;
		o.plugins.tooltip.callbacks = { title: (i) => (i.length ? "staleness " + i[0].parsed.x : ""), label: (i) => `${i.dataset.label}: ${i.parsed.y.toFixed(1)} %` };
		chart("staleness", { type: "line", options: o, data: { datasets: shown.map((r) => ({
			label: r.label, data: r.staleness.map((n, k) => ({ x: k, y: n ? (100 * n) / all(r) : NaN })), spanGaps: false, stepped: "middle", borderColor: colour(r), borderDash: dash(r),
			borderWidth: 1.8, pointStyle: marker(r), pointBorderColor: colour(r), backgroundColor: "transparent",
			pointRadius: r.staleness.map((n, k) => (r.staleness.length === 1 || (n > 0 && k % Math.max(1, Math.ceil(r.staleness.length / 10)) === 0) ? 3.5 : 0)),
		})) } });
		return true;
	}

	function load() {
		const some = rows.filter((r) => r.server_link);
		if (!some.length) {
			byId("load-section").remove();
			return false;
		}
		const o = common();
		o.parsing = false;
		o.scales = { x: { type: "linear", min: 0, ...axis("virtual time, seconds", tick) }, y: { min: 0, ...axis("received and sent, per second", (v) => bytes(v)) } };
		o.plugins.tooltip.callbacks = { title: (i) => (i.length ? short(i[0].parsed.x) + " s" : ""), label: (i) => `${i.dataset.label}: ${bytes(i.parsed.y)}/s` };
		const sets = rows.filter((r) => r.visible && r.server_link).map((r) => {
			const merge = Math.max(1, Math.ceil(r.server_link.received.length / 160)), w = r.server_link.seconds * merge, sums = [];
			r.server_link.received.forEach((n, k) => { const b = Math.floor(k / merge); sums[b] = (sums[b] || 0) + n + r.server_link.sent[k]; });
			return {
				label: r.label, borderColor: colour(r), borderDash: dash(r), borderWidth: 1.5, pointRadius: 0, stepped: "after", backgroundColor: "transparent",
				data: sums.map((n, k) => ({ x: k * w, y: n / w })),
			};
		});
		chart("load", { type: "line", data: { datasets: sets }, options: o });
		byId("load-hint").textContent = "Bytes that all servers together received and sent, of the first run, in equal intervals.";
		return true;
	}

	// Hatching tells the three parts apart where colours do not.
	function hatch(c, kind) {
		const canvas = document.createElement("canvas");
		canvas.width = canvas.height = 8;
		const g = canvas.getContext("2d");
		g.fillStyle = faint(c, kind === 0 ? 0.95 : 0.25);
		g.fillRect(0, 0, 8, 8);
		g.strokeStyle = c;
		g.lineWidth = 1.6;
		g.beginPath();
		if (kind === 1) { g.moveTo(0, 8); g.lineTo(8, 0); g.moveTo(-2, 2); g.lineTo(2, -2); g.moveTo(6, 10); g.lineTo(10, 6); }
		g.stroke();
		return g.createPattern(canvas, "repeat");
	}

	function usage() {
		const some = rows.filter((r) => r.usage);
		if (!some.length) {
			byId("usage-section").remove();
			return;
		}
		if (!byId("usage-of")) {
			const select = make("select", { id: "usage-of", onchange: (e) => { state.worker = +e.target.value; usage(); } },
				make("option", { value: -1 }, "all methods"), ...some.map((r) => make("option", { value: r.look }, r.label)));
			byId("usage-controls").append(make("label", null, "workers of", select));
		}
		const one = some.find((r) => r.look === state.worker);
		const names = one ? one.usage.workers.map((w, k) => "worker " + k) : some.map((r) => r.label);
		const shares = one ? one.usage.workers : some.map((r) => r.usage.all);
		const palette = isDark() ? ["#6cb6ff", "#ff9466", "#9aa3ad"] : ["#0060a8", "#c43c00", "#6d757e"];
		const o = common();
		o.indexAxis = "y";
		o.plugins.legend = { display: true, labels: { color: ink(), boxWidth: 24 }, onClick: null };
		o.plugins.tooltip.callbacks = { label: (i) => `${i.dataset.label}: ${i.parsed.x.toFixed(1)} %` };
		o.scales = {
			x: { stacked: true, min: 0, max: 100, ...axis("share of the workers’ time, %", tick) },
			y: { stacked: true, ticks: { color: ink(), autoSkip: false, callback: (v, k) => (names[k].length > 24 ? names[k].slice(0, 23) + "…" : names[k]) }, grid: { display: false } },
		};
		byId("usage-box").style.height = Math.max(150, 96 + 26 * names.length) + "px";
		chart("usage", { type: "bar", options: o, data: { labels: names, datasets: ["computing", "transferring", "waiting"].map((t, k) => ({
			label: t, data: shares.map((s) => 100 * s[k]), backgroundColor: k === 2 ? faint(palette[2], 0.22) : hatch(palette[k], k), borderColor: palette[k], borderWidth: 1,
			barPercentage: 0.85, categoryPercentage: 0.9,
		})) } });
		charts.usage.resize();
	}

	function jobs() {
		rows.forEach((r, k) => byId("jobs").append(make("details", { id: "job-" + k }, make("summary", null, r.label), make("pre", null, r.job))));
	}

	// --- together ---

	let small = null;
	function draw() {
		curves();
		if (!small || small.staleness) (small = small || {}).staleness = staleness();
		if (small.load !== false) small.load = load();
		if (!small.staleness || !small.load) {
			const pair = document.querySelector(".pair");
			if (pair) pair.classList.add("alone");
		}
	}

	function all() {
		marks();
		draw();
		usage();
	}

	header();
	results();
	settings();
	tuning();
	controls();
	jobs();
	draw();
	usage();
	dark.addEventListener("change", all);
	window.addEventListener("beforeprint", () => { printing = true; all(); });
	window.addEventListener("afterprint", () => { printing = false; all(); });
	window.comparison = { report, rows, charts, state, redraw: curves };
})();
