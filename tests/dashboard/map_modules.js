// What test_map_modules.py runs in the browser: one function a module of pages/js/map/, each gives back what it found.
({
  layout: async () => {
    const {columnsOf, layOut, neighbour, seen} = await import("/js/map/layout.js");
    const groups = [
      {key: "a", names: ["a1", "a2", "a3"], sharedHeight: 50},
      {key: "b", names: ["b1"], isCollapsed: true},
      {key: "c", names: ["c1", "c2"]},
    ];
    const heights = {a1: 20, a2: 40, a3: 20, c1: 20, c2: 20};
    const layout = layOut(groups, {perRow: 2, heightOf: name => heights[name], headerHeight: 30, gap: 10});
    const move = (name, key) => neighbour(layout, name, key) ?? null;
    return {
      rows: layout.rows.map(row => [row.kind, row.names.join(), row.top, row.height]),
      height: layout.height,
      places: Object.fromEntries([...layout.placeOf].map(([name, place]) => [name, [place.lane, place.top]])),
      seen: [seen(layout, 0, 30), seen(layout, 95, 145), seen(layout, 5000, 6000)],
      moves: [move("a2", "ArrowRight"), move("a2", "ArrowDown"), move("a3", "ArrowDown"), move("c2", "ArrowUp"),
              move("a1", "ArrowLeft"), move("", "Home"), move("a1", "End")],
      columns: [columnsOf(100, 30, 5), columnsOf(10, 30, 5)],
    };
  },

  bars: async () => {
    const {barsOf, partsOf, withoutSlivers} = await import("/js/map/bars.js");
    const volumes = new Map([
      ["s/a", {state: "bound", storageClass: "x", bytes: 30}],
      ["s/b", {state: "moving", storageClass: "x", bytes: 20, target: "n2"}],
      ["s/new", {state: "making", storageClass: "x", bytes: 5}],
      ["s/in", {state: "moving", storageClass: "x", bytes: 7, target: "n1"}],
    ]);
    const entry = {mode: "Ledger", pod: "s/p", bytes: 10, claims: []};
    const told = [["ns/c", {storageClass: "x", pools: [40], reserved: [entry]}]];
    const short = bars => bars.map(bar => [bar.kind, bar.size, bar.segments.map(each => [each.kind, each.key ?? "", each.from, each.bytes])]);
    const here = {claims: ["s/a", "s/b", "s/new"], coming: ["s/in"], told, volumes};
    const pool = {size: 100, free: 40, volumes: ["s/b", "s/a"]};
    const object = [["ns/c", {storageClass: "x", pools: [40], reserved: [{...entry, mode: "Object"}]}]];
    const many = {kind: "claims", segments: [...Array(9)].map((_, index) => ({kind: "claim", key: `s/${index}`, from: index, bytes: 1}))};
    const classes = new Map([["x", {driver: "d"}], ["nvme", {driver: "other"}]]);
    const shared = {row: {name: "n1", poolsDriver: "d", pools: [pool]}, claims: ["s/a", "s/b", "s/fast"], coming: [], told: [told[0], ["ns/nvme", {storageClass: "nvme", pools: [90, 80], stale: "old"}]]};
    const ofAll = new Map([...volumes, ["s/fast", {state: "bound", storageClass: "nvme", driver: "other", bytes: 10}]]);
    const beside = partsOf(shared, {classes, volumes: ofAll}).flatMap(part => barsOf(part.row, {...part, volumes: ofAll}));
    return {
      beside: beside.map(bar => [bar.label, bar.size, bar.free, bar.stale ?? "", bar.segments.map(each => each.key ?? each.kind)]),
      one: short(barsOf({pools: [pool]}, here)),
      two: short(barsOf({pools: [pool, {size: 50, free: 50}]}, here)),
      outside: short(barsOf({}, here)),
      several: short(barsOf({}, {...here, told: [["ns/c", {storageClass: "x", pools: [40, 9], reserved: [entry]}]]})),
      landed: short(barsOf({name: "n1", pools: [{...pool, arriving: ["s/in"]}, {size: 50, free: 50}]}, {...here, told: told.map(([key, each]) => [key, {...each, reserved: [{...entry, claims: ["s/in"], bytes: 7}]}])})),
      objects: short(barsOf({pools: [pool, {size: 50, free: 50}]}, {...here, claims: ["s/a", "s/b"], coming: [], told: object})),
      object: short(barsOf({pools: [pool]}, {...here, claims: ["s/a", "s/b"], coming: [], told: object})),
      group: short(barsOf({pools: [pool, {size: 50, free: 50}]}, {...here, claims: [], coming: [], told: ["x", "y"].map(name => [`ns/${name}`, {storageClass: name, pools: [40], reserved: [entry]}])})).at(-1),
      slivers: withoutSlivers(many, 2).segments.map(each => [each.kind, each.count ?? 1, each.bytes]),
    };
  },

  // Full lines and steps for the largest of some bars, as reports count them.
  scales: async amounts => {
    const {scaleFor} = await import("/js/map/scale.js");
    return amounts.map(scaleFor).map(({full, step}) => [full, step]);
  },

  // Random messages, applied one after the other: what is kept up to date is what is worked out anew.
  facts: async seed => {
    const {Facts} = await import("/js/map/facts.js");
    const {State} = await import("/js/state.js");
    let at = seed;
    const random = below => { at = (at * 1103515245 + 12345) % 2147483648; return Math.floor(at / 65536) % below; };
    const state = new State();
    const facts = new Facts(state);
    state.onChange(changed => facts.update(changed));
    const some = letter => `${letter}${random(4)}`;
    const rows = {
      nodes: name => {
        const pools = random(2) ? [{size: 100, free: random(100), volumes: [some("v")]}] : [];
        return {name, zone: some("z"), cordoned: random(2) === 1, pools};
      },
      volumes: () => {
        const kind = ["waiting", "making", "bound", "moving", "lost"][random(5)];
        const [node, target] = [random(4) ? some("n") : "", kind === "moving" ? some("n") : ""];
        return {state: kind, storageClass: some("c"), bytes: 1 + random(50), node, target};
      },
      capacities: () => {
        const reserved = random(3) ? [] : [{mode: "Ledger", pod: "p", bytes: 5, claims: [some("v")]}];
        const stale = random(5) ? "" : "old";
        return {storageClass: some("c"), nodes: [some("n")], nodeCount: 1 + random(2), pools: [random(90)], stale, reserved};
      },
      classes: () => ({driver: "d", group: random(2) ? "g" : ""}),
    };
    const letters = {nodes: "n", volumes: "v", capacities: "k", classes: "c"};
    const told = each => {
      const sets = [each.waiting, each.nowhere, each.shared, each.moving].map(set => [...set].sort());
      const nodes = each.names().sort().map(name => each.of(name));
      return JSON.stringify([nodes, sets], (_, value) => (value instanceof Set ? [...value].sort() : value));
    };
    const undone = [];
    for (let step = 0; step < 300; step += 1) {
      const name = Object.keys(rows)[random(4)];
      const key = some(letters[name]);
      if (random(6) === 0 && undone.length) state.apply(undone.pop());
      else undone.push(state.apply(random(4) ? {set: {[name]: {[key]: rows[name](key)}}} : {gone: {[name]: [key]}}));
      if (told(facts) !== told(new Facts(state))) return `step ${step}: ${told(facts)} is not ${told(new Facts(state))}`;
    }
    return "";
  },

  arranged: async () => {
    const {arranged, searched} = await import("/js/map/arrangement.js");
    const {Facts} = await import("/js/map/facts.js");
    const {State} = await import("/js/state.js");
    const {Colours} = await import("/js/map/colours.js");
    const {bytes} = await import("/js/format.js");
    const state = new State();
    const pool = free => [{size: 100, free, volumes: []}];
    state.apply({set: {
      nodes: {
        "n-10": {name: "n-10", zone: "b", pools: pool(10)},
        "n-9": {name: "n-9", zone: "b", pools: pool(90), cordoned: true},
        "n-1": {name: "n-1", zone: "a", ready: false, pools: pool(50)},
        "n-0": {name: "n-0", zone: "a", pools: pool(50)},
        "lost": {name: "lost"},
      },
      volumes: {
        "shop/cart": {claim: "shop/cart", volume: "pvc-7", storageClass: "fast", node: "n-0", state: "bound", pods: ["shop/web-1"]},
        "shop/late": {claim: "shop/late", storageClass: "fast", state: "waiting"},
      },
    }});
    const facts = new Facts(state);
    const order = choices => arranged(facts, {group: "zone", sort: "name", ...choices}).map(group => `${group.key}: ${group.names}`);
    const found = text => { const all = searched(facts, text); return all && [[...all.nodes], [...all.claims], [...all.others]]; };
    const colours = new Colours();
    const given = ["fast", "flash", "fat", "", "a1", "a2", "a3", "a4", "a5"].map(name => colours.give("class", name));
    return {
      byName: order({}), trouble: order({sort: "trouble"}), fullest: order({group: "none", sort: "fullness"}),
      cordoned: order({isCordonedOnly: true}), troubled: order({isTroubleOnly: true}), class: order({storageClass: "fast"}),
      pod: found("WEB-1"), volume: found("pvc-7"), ofClass: found("fast"), node: found("n-10"), none: found("  "),
      ninth: [given[8].colour, given[8].pattern],
      bytes: [bytes(0), bytes(1023), bytes(1536), bytes(1024 ** 4 - 1), bytes(5 * 1024 ** 3)],
    };
  },
})
