//! Random hostlist expressions from a seed: the same seed gives the same expressions.

/// A small generator of pseudo-random numbers (xorshift); good quality is not needed here.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or_default()]
    }
}

/// `count` expressions: mostly what people write, some of it invalid.
pub fn expressions(seed: u64, count: usize) -> Vec<String> {
    let mut chance = Chance::new(seed);
    (0..count)
        .map(|_| {
            let elements = 1 + chance.below(4);
            let elements: Vec<String> = (0..elements).map(|_| element(&mut chance)).collect();
            let text = elements.join(chance.pick(&[",", ",", ",", " ", ",,"]));
            if chance.below(8) == 0 { spoil(&mut chance, text) } else { text }
        })
        .collect()
}

fn element(chance: &mut Chance) -> String {
    let mut text = chance.pick(&["a", "b", "node", "gpu-", "n0", "rack1-", "", "x.y", "A"]).to_owned();
    match chance.below(4) {
        0 => text.push_str(&number(chance)),
        1 => {}
        brackets => {
            for _ in 1..brackets {
                text.push_str(&bracket(chance));
                text.push_str(chance.pick(&["", "", "-", "b", "x0", "7"]));
            }
        }
    }
    if text.is_empty() || text.starts_with(['-', '.']) { format!("h{text}") } else { text }
}

fn number(chance: &mut Chance) -> String {
    let number = chance.below(120);
    match chance.below(4) {
        0 => format!("{number:03}"),
        1 => format!("{number:02}"),
        _ => number.to_string(),
    }
}

fn bracket(chance: &mut Chance) -> String {
    let ranges = 1 + chance.below(3);
    let ranges: Vec<String> = (0..ranges)
        .map(|_| {
            let low = number(chance);
            if chance.below(2) == 0 {
                return low;
            }
            let value: u64 = low.parse().unwrap_or_default();
            let high = value + chance.below(5);
            let width = if chance.below(3) == 0 { 1 } else { low.len() };
            format!("{low}-{high:0width$}")
        })
        .collect();
    format!("[{}]", ranges.join(","))
}

/// Inserts a mark where none belongs, or removes a character.
fn spoil(chance: &mut Chance, mut text: String) -> String {
    let place = usize::try_from(chance.below(text.len() as u64)).unwrap_or_default();
    match chance.below(3) {
        0 => drop(text.remove(place)),
        _ => text.insert_str(place, chance.pick(&["[", "]", "-", ",", "[]", "[3-1]", "x"])),
    }
    text
}
