//! Maximum flow from job types (ports) to servers, the one combinatorial problem behind stability and bounds.
//!
//! A port `p` has a supply, a server `g` has room, and supply moves along the edges of the compatibility graph, whose
//! capacities are unbounded: the network has no other arcs, so source and sink stay implicit. [`Flow::augment`] is
//! Dinic's algorithm (1970) on compressed sparse rows: a breadth-first search fixes the length of the shortest
//! augmenting paths, a depth-first search with current arcs saturates all of them, until no path is left.
//!
//! * **Exact**: amounts are integers, so a maximum flow is one, and the cut that proves it adds up to the last unit.
//!   [`Scale`] turns rates into units and says on which side it rounds.
//! * **Incremental**: supply and room may be added or taken away between calls; what can stay of the flow stays. Opening
//!   the speed classes one by one costs little more than opening all at once, and a fleet that lost a server is solved
//!   by rerouting what that server did.
//! * **Trials**: between [`Flow::begin_trial`] and [`Flow::end_trial`] every change is noted and then taken back, at a
//!   cost of what changed.
//! * `O(V^2 E)` at worst; on compatibility graphs a few dozen passes over the edges. 24 bytes per edge.

use std::ops::Range;

/// Edges by port and by server. Edge `e` belongs to the port whose range holds `e`.
#[derive(Clone, Debug)]
pub(crate) struct Bipartite {
    row_starts: Vec<u32>,
    heads: Vec<u32>,
    column_starts: Vec<u32>,
    /// Per server its edges, as (port, edge).
    tails: Vec<(u32, u32)>,
}

impl Bipartite {
    /// From one list of servers per port, as `row_starts` (one entry more than ports) and `heads`.
    ///
    /// # Panics
    /// If a head is not below `servers`, or there are 2^32 edges or more.
    pub(crate) fn new(row_starts: Vec<u32>, heads: Vec<u32>, servers: usize) -> Self {
        let mut column_starts = vec![0_u32; servers + 1];
        for &g in &heads {
            column_starts[g as usize + 1] += 1;
        }
        for g in 0..servers {
            column_starts[g + 1] += column_starts[g];
        }
        let mut next = column_starts.clone();
        let mut tails = vec![(0, 0); heads.len()];
        for (p, ends) in row_starts.windows(2).enumerate() {
            for e in ends[0]..ends[1] {
                let slot = &mut next[heads[e as usize] as usize];
                tails[*slot as usize] = (index(p), e);
                *slot += 1;
            }
        }
        Self { row_starts, heads, column_starts, tails }
    }

    pub(crate) fn port_count(&self) -> usize {
        self.row_starts.len() - 1
    }

    pub(crate) fn server_count(&self) -> usize {
        self.column_starts.len() - 1
    }

    pub(crate) fn edge_count(&self) -> usize {
        self.heads.len()
    }

    /// The edges of a port.
    pub(crate) fn edges(&self, port: usize) -> Range<usize> {
        self.row_starts[port] as usize..self.row_starts[port + 1] as usize
    }

    /// The servers of a port, in the order of its edges.
    pub(crate) fn row(&self, port: usize) -> &[u32] {
        &self.heads[self.edges(port)]
    }

    /// The ports of a server, each with its edge.
    pub(crate) fn column(&self, server: usize) -> &[(u32, u32)] {
        &self.tails[self.column_range(server)]
    }

    fn column_range(&self, server: usize) -> Range<usize> {
        self.column_starts[server] as usize..self.column_starts[server + 1] as usize
    }
}

/// An index as it is stored.
pub(crate) fn index(i: usize) -> u32 {
    u32::try_from(i).expect("a fleet numbers its parts within 32 bits, and graphs of 2^32 edges do not fit in memory")
}

/// Turns rates into whole units, `2^60` of which are the largest amount that occurs.
///
/// Rounding supply down and room up keeps every flow that is possible in real numbers possible in units; what is
/// impossible in units is so by a cut, whose ratio is then summed in the original numbers. An amount below
/// `2^-60` of the largest is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale(f64);

impl Scale {
    pub(crate) fn new(largest: f64) -> Self {
        Self((1_u64 << 60) as f64 / largest)
    }

    pub(crate) fn down(self, amount: f64) -> u64 {
        (amount * self.0).floor() as u64
    }

    pub(crate) fn up(self, amount: f64) -> u64 {
        (amount * self.0).ceil() as u64
    }

    pub(crate) fn amount(self, units: u64) -> f64 {
        units as f64 / self.0
    }
}

/// No level: not reached by the last search.
const UNREACHED: u32 = u32::MAX;

/// A flow, and what is left of supplies and rooms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Amounts {
    supply: Vec<u64>,
    room: Vec<u64>,
    on_edge: Vec<u64>,
}

/// A flow in the making.
#[derive(Clone, Debug)]
pub(crate) struct Flow<'a> {
    graph: &'a Bipartite,
    amounts: Amounts,
    /// Searches end when they have looked at so many.
    most_visits: u64,
    /// Former values, if a trial is running.
    former: Option<Vec<(Place, u64)>>,
    search: Search,
}

/// Where an amount stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Supply(usize),
    Room(usize),
    Edge(usize),
}

/// Levels of the last breadth-first search, and the current arcs of the depth-first search in it.
#[derive(Clone, Debug)]
struct Search {
    /// Edges and nodes looked at so far: a measure of effort that is the same on every machine.
    visits: u64,
    port_level: Vec<u32>,
    server_level: Vec<u32>,
    port_arc: Vec<u32>,
    server_arc: Vec<u32>,
    queue: Vec<u32>,
    /// The path in hand, without its last edge.
    path: Vec<Hop>,
}

/// From a port out to a full server, and back along an edge with flow to another port.
#[derive(Clone, Copy, Debug)]
struct Hop {
    port: u32,
    out: u32,
    back: u32,
}

impl<'a> Flow<'a> {
    /// No flow, no supply, no room.
    pub(crate) fn new(graph: &'a Bipartite) -> Self {
        let (ports, servers) = (graph.port_count(), graph.server_count());
        let amounts = Amounts { supply: vec![0; ports], room: vec![0; servers], on_edge: vec![0; graph.edge_count()] };
        Self::resume(graph, amounts)
    }

    /// Goes on with the amounts of an earlier flow in the same graph.
    pub(crate) fn resume(graph: &'a Bipartite, amounts: Amounts) -> Self {
        let (ports, servers) = (graph.port_count(), graph.server_count());
        Self {
            graph,
            amounts,
            most_visits: u64::MAX,
            former: None,
            search: Search {
                visits: 0,
                port_level: vec![UNREACHED; ports],
                server_level: vec![UNREACHED; servers],
                port_arc: vec![0; ports],
                server_arc: vec![0; servers],
                queue: Vec::with_capacity(ports),
                path: Vec::new(),
            },
        }
    }

    pub(crate) fn add_supply(&mut self, port: usize, units: u64) {
        self.set(Place::Supply(port), self.amounts.supply[port] + units);
    }

    pub(crate) fn add_room(&mut self, server: usize, units: u64) {
        self.set(Place::Room(server), self.amounts.room[server] + units);
    }

    /// Takes supply away: what is not served first, then what flows.
    ///
    /// # Panics
    /// If the port has not so much.
    pub(crate) fn take_supply(&mut self, port: usize, units: u64) {
        let unserved = self.amounts.supply[port].min(units);
        self.set(Place::Supply(port), self.amounts.supply[port] - unserved);
        let mut left = units - unserved;
        for edge in self.graph.edges(port) {
            if left == 0 {
                return;
            }
            let back = self.amounts.on_edge[edge].min(left);
            if back > 0 {
                let server = self.graph.heads[edge] as usize;
                self.set(Place::Edge(edge), self.amounts.on_edge[edge] - back);
                self.set(Place::Room(server), self.amounts.room[server] + back);
                left -= back;
            }
        }
        assert_eq!(left, 0, "no more supply is taken than was given");
    }

    /// Takes room away: what is free first, then what is used; that becomes unserved supply of its ports.
    ///
    /// # Panics
    /// If the server has not so much.
    pub(crate) fn take_room(&mut self, server: usize, units: u64) {
        let free = self.amounts.room[server].min(units);
        self.set(Place::Room(server), self.amounts.room[server] - free);
        let mut left = units - free;
        let graph = self.graph;
        for &(port, edge) in graph.column(server) {
            if left == 0 {
                return;
            }
            let (port, edge) = (port as usize, edge as usize);
            let back = self.amounts.on_edge[edge].min(left);
            if back > 0 {
                self.set(Place::Edge(edge), self.amounts.on_edge[edge] - back);
                self.set(Place::Supply(port), self.amounts.supply[port] + back);
                left -= back;
            }
        }
        assert_eq!(left, 0, "no more room is taken than was given");
    }

    /// From now on changes are noted.
    pub(crate) fn begin_trial(&mut self) {
        self.former = Some(Vec::new());
    }

    /// Takes back all changes since [`begin_trial`](Self::begin_trial).
    pub(crate) fn end_trial(&mut self) {
        for (place, former) in self.former.take().into_iter().flatten().rev() {
            self.set(place, former);
        }
    }

    fn set(&mut self, place: Place, units: u64) {
        let amount = match place {
            Place::Supply(port) => &mut self.amounts.supply[port],
            Place::Room(server) => &mut self.amounts.room[server],
            Place::Edge(edge) => &mut self.amounts.on_edge[edge],
        };
        let former = std::mem::replace(amount, units);
        if let Some(log) = &mut self.former {
            log.push((place, former));
        }
    }

    /// Supply of a port that has not found room.
    pub(crate) fn unserved_at(&self, port: usize) -> u64 {
        self.amounts.supply[port]
    }

    /// Supply that has not found room.
    pub(crate) fn unserved(&self) -> u64 {
        self.amounts.supply.iter().sum()
    }

    /// From now on [`augment`](Self::augment) gives up when searches have looked at so many edges and nodes in all.
    pub(crate) fn give_up_after(&mut self, most_visits: u64) {
        self.most_visits = most_visits;
    }

    /// Edges and nodes that searches have looked at.
    pub(crate) fn visits(&self) -> u64 {
        self.search.visits
    }

    /// Whether it has: then the flow is one, but perhaps not a maximum flow, and it proves no cut.
    pub(crate) fn has_given_up(&self) -> bool {
        self.search.visits > self.most_visits
    }

    /// The flow as it stands.
    pub(crate) fn into_amounts(self) -> Amounts {
        self.amounts
    }

    /// Units on each edge.
    pub(crate) fn on_edges(&self) -> &[u64] {
        &self.amounts.on_edge
    }

    /// Makes the flow a maximum flow; returns how much it grew.
    pub(crate) fn augment(&mut self) -> u64 {
        let mut grown = 0;
        while !self.has_given_up() && self.find_levels() {
            for start in 0..self.graph.port_count() {
                while self.amounts.supply[start] > 0 && !self.has_given_up() {
                    match self.push_along_a_path(start) {
                        0 => break,
                        units => grown += units,
                    }
                }
            }
        }
        grown
    }

    /// After [`augment`](Self::augment): the ports from which unserved supply reaches, the source side of a minimum
    /// cut. Their servers are full: `supply of the ports - room of their servers = unserved`.
    pub(crate) fn source_side(&self) -> Vec<bool> {
        self.search.port_level.iter().map(|&level| level != UNREACHED).collect()
    }

    /// Breadth-first levels from the ports with supply; whether a server with room is reached. Servers beyond the
    /// nearest room get no level.
    fn find_levels(&mut self) -> bool {
        let Self { graph, amounts: Amounts { supply, room, on_edge }, search, .. } = self;
        search.start(graph, supply);
        search.visits += (supply.len() + room.len()) as u64;
        let mut depth_of_room = UNREACHED;
        let mut next = 0;
        while let Some(&port) = search.queue.get(next) {
            next += 1;
            let depth = search.port_level[port as usize];
            if depth > depth_of_room {
                break;
            }
            search.visits += graph.row(port as usize).len() as u64;
            for &server in graph.row(port as usize) {
                if search.server_level[server as usize] != UNREACHED {
                    continue;
                }
                search.server_level[server as usize] = depth;
                if room[server as usize] > 0 {
                    depth_of_room = depth;
                } else if depth < depth_of_room {
                    search.visits += graph.column(server as usize).len() as u64;
                    for &(tail, edge) in graph.column(server as usize) {
                        if on_edge[edge as usize] > 0 && search.port_level[tail as usize] == UNREACHED {
                            search.port_level[tail as usize] = depth + 1;
                            search.queue.push(tail);
                        }
                    }
                }
            }
        }
        depth_of_room != UNREACHED
    }

    /// Pushes as much as fits along one shortest path from `start`, 0 if there is none left.
    fn push_along_a_path(&mut self, start: usize) -> u64 {
        let Some(last) = self.find_path(start) else { return 0 };
        let end = self.graph.heads[last] as usize;
        let path = std::mem::take(&mut self.search.path);
        let narrowest = path.iter().map(|hop| self.amounts.on_edge[hop.back as usize]).min().unwrap_or(u64::MAX);
        let units = narrowest.min(self.amounts.supply[start]).min(self.amounts.room[end]);
        for hop in &path {
            let (out, back) = (hop.out as usize, hop.back as usize);
            self.set(Place::Edge(out), self.amounts.on_edge[out] + units);
            self.set(Place::Edge(back), self.amounts.on_edge[back] - units);
        }
        self.set(Place::Edge(last), self.amounts.on_edge[last] + units);
        self.set(Place::Supply(start), self.amounts.supply[start] - units);
        self.set(Place::Room(end), self.amounts.room[end] - units);
        self.search.path = path;
        units
    }

    /// Depth-first search along current arcs for a server with room. Leaves the path's hops in `search.path` and
    /// returns its last edge. An arc that leads nowhere is passed for the rest of the phase.
    fn find_path(&mut self, start: usize) -> Option<usize> {
        let Self { graph, amounts: Amounts { room, on_edge, .. }, search, .. } = self;
        search.path.clear();
        let mut port = start;
        loop {
            search.visits += 1;
            let arc = search.port_arc[port] as usize;
            if arc == graph.edges(port).end {
                let hop = search.path.pop()?;
                search.server_arc[graph.heads[hop.out as usize] as usize] += 1;
                port = hop.port as usize;
                continue;
            }
            let server = graph.heads[arc] as usize;
            if search.server_level[server] != search.port_level[port] {
                search.port_arc[port] += 1;
            } else if room[server] > 0 {
                return Some(arc);
            } else if let Some((tail, back)) = search.way_back(graph, on_edge, server) {
                search.path.push(Hop { port: index(port), out: index(arc), back });
                port = tail as usize;
            } else {
                search.port_arc[port] += 1;
            }
        }
    }
}

impl Search {
    /// Ports with supply at level 0, nothing else reached, all arcs at their start.
    fn start(&mut self, graph: &Bipartite, supply: &[u64]) {
        self.port_arc.copy_from_slice(&graph.row_starts[..supply.len()]);
        self.server_arc.copy_from_slice(&graph.column_starts[..self.server_level.len()]);
        self.port_level.fill(UNREACHED);
        self.server_level.fill(UNREACHED);
        self.queue.clear();
        for (port, _) in supply.iter().enumerate().filter(|&(_, &units)| units > 0) {
            self.port_level[port] = 0;
            self.queue.push(index(port));
        }
    }

    /// The current edge with flow from `server` back to a port one level on, as (port, edge).
    fn way_back(&mut self, graph: &Bipartite, on_edge: &[u64], server: usize) -> Option<(u32, u32)> {
        let onward = self.server_level[server] + 1;
        let end = graph.column_starts[server + 1];
        while self.server_arc[server] < end {
            self.visits += 1;
            let (tail, edge) = graph.tails[self.server_arc[server] as usize];
            if on_edge[edge as usize] > 0 && self.port_level[tail as usize] == onward {
                return Some((tail, edge));
            }
            self.server_arc[server] += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use petgraph::graph::{DiGraph, NodeIndex};
    use proptest::prelude::*;

    use super::*;

    /// Rows, supplies, rooms.
    type Instance = (Vec<Vec<u32>>, Vec<u64>, Vec<u64>);

    fn instances() -> impl Strategy<Value = Instance> {
        (1..12_usize, 1..12_usize).prop_flat_map(|(ports, servers)| {
            let server = 0..u32::try_from(servers).unwrap();
            let row = proptest::collection::btree_set(server, 0..=servers.min(4));
            let rows = proptest::collection::vec(row.prop_map(|row| row.into_iter().collect()), ports);
            (rows, proptest::collection::vec(0..40_u64, ports), proptest::collection::vec(0..40_u64, servers))
        })
    }

    fn bipartite(rows: &[Vec<u32>], servers: usize) -> Bipartite {
        let mut starts = vec![0];
        for row in rows {
            starts.push(starts[starts.len() - 1] + index(row.len()));
        }
        Bipartite::new(starts, rows.concat(), servers)
    }

    fn by_petgraph((rows, supply, room): &Instance) -> u64 {
        let mut graph = DiGraph::<(), u64>::new();
        let (source, sink) = (graph.add_node(()), graph.add_node(()));
        let ports: Vec<NodeIndex> = supply.iter().map(|_| graph.add_node(())).collect();
        let servers: Vec<NodeIndex> = room.iter().map(|_| graph.add_node(())).collect();
        for (p, row) in rows.iter().enumerate() {
            graph.add_edge(source, ports[p], supply[p]);
            for &g in row {
                graph.add_edge(ports[p], servers[g as usize], 1_000_000);
            }
        }
        for (g, &units) in room.iter().enumerate() {
            graph.add_edge(servers[g], sink, units);
        }
        petgraph::algo::ford_fulkerson(&graph, source, sink).0
    }

    fn full<'a>(graph: &'a Bipartite, (_, supply, room): &Instance) -> Flow<'a> {
        let mut flow = Flow::new(graph);
        supply.iter().enumerate().for_each(|(p, &units)| flow.add_supply(p, units));
        room.iter().enumerate().for_each(|(g, &units)| flow.add_room(g, units));
        flow
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn the_flow_is_as_large_as_petgraphs(instance in instances()) {
            let graph = bipartite(&instance.0, instance.2.len());
            prop_assert_eq!(full(&graph, &instance).augment(), by_petgraph(&instance));
        }

        #[test]
        fn what_leaves_ports_arrives_at_servers_along_edges(instance in instances()) {
            let graph = bipartite(&instance.0, instance.2.len());
            let mut flow = full(&graph, &instance);
            flow.augment();
            for p in 0..graph.port_count() {
                let sent: u64 = flow.on_edges()[graph.edges(p)].iter().sum();
                prop_assert_eq!(sent + flow.amounts.supply[p], instance.1[p]);
            }
            for g in 0..graph.server_count() {
                let received: u64 = graph.column(g).iter().map(|&(_, e)| flow.on_edges()[e as usize]).sum();
                prop_assert_eq!(received + flow.amounts.room[g], instance.2[g]);
            }
        }

        #[test]
        fn the_source_side_is_a_cut_that_proves_the_flow_largest(instance in instances()) {
            let graph = bipartite(&instance.0, instance.2.len());
            let mut flow = full(&graph, &instance);
            flow.augment();
            let side = flow.source_side();
            let inside = |p: &usize| side[*p];
            let supply: u64 = (0..side.len()).filter(inside).map(|p| instance.1[p]).sum();
            let mut servers: Vec<u32> = (0..side.len()).filter(inside).flat_map(|p| graph.row(p).to_vec()).collect();
            servers.sort_unstable();
            servers.dedup();
            let room: u64 = servers.iter().map(|&g| instance.2[g as usize]).sum();
            prop_assert_eq!(supply - room, flow.unserved());
        }

        #[test]
        fn taking_supply_and_room_away_leaves_a_flow_of_what_remains(instance in instances(), which in any::<(u8, u8)>()) {
            let graph = bipartite(&instance.0, instance.2.len());
            let mut flow = full(&graph, &instance);
            flow.augment();
            let before = flow.clone();
            let (port, server) = (which.0 as usize % graph.port_count(), which.1 as usize % graph.server_count());
            flow.begin_trial();
            flow.take_supply(port, instance.1[port] / 2);
            flow.take_room(server, instance.2[server]);
            flow.augment();
            let mut less = instance.clone();
            less.1[port] -= instance.1[port] / 2;
            less.2[server] = 0;
            prop_assert_eq!(less.1.iter().sum::<u64>() - flow.unserved(), by_petgraph(&less));
            flow.end_trial();
            prop_assert_eq!(&flow.amounts, &before.amounts);
        }

        #[test]
        fn rooms_opened_one_by_one_give_the_same_flow(instance in instances()) {
            let graph = bipartite(&instance.0, instance.2.len());
            let mut flow = full(&graph, &(instance.0.clone(), instance.1.clone(), vec![0; instance.2.len()]));
            let mut total = 0;
            for (g, &units) in instance.2.iter().enumerate() {
                flow.add_room(g, units);
                total += flow.augment();
            }
            prop_assert_eq!(total, by_petgraph(&instance));
        }
    }

    #[test]
    fn a_path_that_must_shift_every_earlier_choice_is_found() {
        // Port p is on servers p and p + 1, all take their first; the last port is on server 0 only.
        let n = 1_000_u32;
        let mut rows: Vec<Vec<u32>> = (0..n).map(|p| vec![p, p + 1]).collect();
        rows.push(vec![0]);
        let graph = bipartite(&rows, n as usize + 1);
        let mut flow = Flow::new(&graph);
        (0..=n as usize).for_each(|g| flow.add_room(g, 1));
        (0..n as usize).for_each(|p| flow.add_supply(p, 1));
        assert_eq!(flow.augment(), 1_000);
        flow.add_supply(n as usize, 1);
        assert_eq!(flow.augment(), 1);
        assert_eq!(flow.unserved(), 0);
    }
}
