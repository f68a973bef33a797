// Finds the tiles of an on-chip memory that are in use, and the bytes they leave free.  Pure functions over columns.

/** Return the tiles of one memory, from the columns of `memory_model.py`. */
export function tilesOf(memory, count, arrays) {
  const tiles = { count };
  for (const [name, column] of Object.entries(arrays)) {
    const [of, field] = name.split(".");
    if (of === memory) tiles[field] = column;
  }
  return tiles;
}

/** Tell whether a tile has bytes in a partition; -1 stands for any. */
export function inPartition(tiles, k, partition) {
  return partition < 0 || (tiles.partition[k] <= partition && partition < tiles.partition[k] + tiles.partitions[k]);
}

/** Return the tile at an instruction and byte, or -1; of several the one that lies on top. */
export function tileAt(tiles, partition, instruction, byte) {
  for (let k = tiles.count - 1; k >= 0; k--) {
    if (
      tiles.first[k] <= instruction && instruction <= tiles.last[k] &&
      tiles.address[k] <= byte && byte < tiles.address[k] + tiles.size[k] && inPartition(tiles, k, partition)
    ) return k;
  }
  return -1;
}

/** Return the numbers of the tiles in use at an instruction, by address. */
export function liveAt(tiles, instruction) {
  const found = [];
  for (let k = 0; k < tiles.count; k++) if (tiles.first[k] <= instruction && instruction <= tiles.last[k]) found.push(k);
  return found.sort((a, b) => tiles.address[a] - tiles.address[b] || tiles.partition[a] - tiles.partition[b]);
}

/** Return what no tile of `live` covers in any partition: how many bytes, the longest stretch, and its share. */
export function freeBytes(tiles, live, usable) {
  let at = 0;
  let free = 0;
  let largest = 0;
  const gap = (to) => {
    if (to <= at) return;
    free += to - at;
    largest = Math.max(largest, to - at);
  };
  for (const k of live) { // by address
    gap(Math.min(tiles.address[k], usable));
    at = Math.max(at, tiles.address[k] + tiles.size[k]);
  }
  gap(usable);
  return { free, largest, fragmentation: free ? 1 - largest / free : 0 };
}

/** Return the most bytes that tiles of `live` cover in one partition. */
export function bytesInUse(tiles, live, partitions) {
  const used = new Float64Array(partitions + 1);
  for (const k of live) {
    used[tiles.partition[k]] += tiles.size[k];
    used[Math.min(partitions, tiles.partition[k] + tiles.partitions[k])] -= tiles.size[k];
  }
  let sum = 0;
  let most = 0;
  for (let p = 0; p < partitions; p++) most = Math.max(most, (sum += used[p]));
  return most;
}

/** Return which of `classes` a tile's time in use belongs to, on a scale of factors up to the longest. */
export function lifetimeClass(tiles, k, longest, classes) {
  if (longest <= 1) return 0;
  const share = Math.log(tiles.last[k] - tiles.first[k] + 1) / Math.log(longest);
  return Math.min(classes - 1, Math.floor(share * classes));
}

/** Return the longest time, in instructions, that a tile of any memory is in use. */
export function longestLifetime(memories) {
  let longest = 1;
  for (const tiles of memories) for (let k = 0; k < tiles.count; k++) longest = Math.max(longest, tiles.last[k] - tiles.first[k] + 1);
  return longest;
}
