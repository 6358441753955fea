// The capacity map of the live cluster; #/map/node/NAME and #/map/claim/NAMESPACE/NAME open it with details. What is searched
// for and which nodes are shown stand in the address too: ?search=TEXT&class=NAME&trouble=yes&cordoned=yes.

import {el} from "../dom.js";
import {drawMap} from "../map/capacity_map.js";

export const title = "Map";

/** Show the map in `main`; gives back how it is closed, and how it shows another address. */
export function open(main, {state, query, tell}, ...rest) {
  const place = el("div", {class: "map-place"});
  main.append(el("h2", {class: "unseen"}, "Capacity map"), place);
  let told = choicesOf(query);
  let shown = detailsOf(rest);
  const say = isNew => tell(shown ? [shown.kind, ...(shown.kind === "claim" ? shown.key.split("/") : [shown.key])] : [], queryOf(told), {isNew});
  const map = drawMap(place, state, {
    choices: told,
    onChoose: choices => {
      const before = told;
      told = only(choices);
      say(Object.keys(told).some(name => name !== "search" && told[name] !== before[name])); // each letter is no entry of its own
    },
    onOpen: details => {
      shown = details;
      say(true);
    },
  });
  let unfollow = () => {};
  const showDetails = () => {
    unfollow();
    if (!shown) return map.panel.close({isTold: false});
    if (!state.nodes.size) {
      // The page was opened at this address: nothing is known yet.
      unfollow = state.onChange(() => {
        map.drawFrame();
        showDetails();
      });
      return undefined;
    }
    map.panel.open(shown.kind, shown.key, {isTold: false});
    return shown.kind === "node" && map.moveTo(shown.key, {isFocused: false});
  };
  showDetails();
  return {
    close: () => {
      unfollow();
      map.close();
    },
    goTo: (asked, ...about) => {
      told = choicesOf(asked);
      shown = detailsOf(about);
      map.choose(told);
      showDetails();
    },
  };
}

function detailsOf([kind, ...key]) {
  return (kind === "node" || kind === "claim") && key.length ? {kind, key: key.join("/")} : null;
}

const only = ({search, storageClass, isTroubleOnly, isCordonedOnly}) => ({search, storageClass, isTroubleOnly, isCordonedOnly});

function choicesOf(query) {
  return {
    search: query.get("search") ?? "",
    storageClass: query.get("class") ?? "",
    isTroubleOnly: query.get("trouble") === "yes",
    isCordonedOnly: query.get("cordoned") === "yes",
  };
}

function queryOf({search, storageClass, isTroubleOnly, isCordonedOnly}) {
  return {search, class: storageClass, trouble: isTroubleOnly ? "yes" : "", cordoned: isCordonedOnly ? "yes" : ""};
}
