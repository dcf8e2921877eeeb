//! The attributes of the open start tag that a crawler needs, each in a slot whose memory is
//! reused.

use super::name::TagName;
use super::tokenizer::Value;

#[derive(Clone, Copy)]
pub enum Slot {
    /// `href`, or `src` for a frame.
    Target,
    Rel,
    Name,
    Content,
    HttpEquiv,
    Charset,
    Lang,
}

const SLOT_COUNT: usize = Slot::Lang as usize + 1;

#[derive(Default)]
pub struct Attributes {
    slots: [Vec<u8>; SLOT_COUNT],
    /// Bit sets by [`Slot`]: which attributes are present, and which were longer than the bound.
    seen: u8,
    cut: u8,
}

impl Attributes {
    #[inline]
    pub fn clear(&mut self) {
        self.seen = 0;
        self.cut = 0;
    }

    #[inline]
    pub fn take(&mut self, element: TagName, name: &[u8], value: Value<'_>) {
        let Some(slot) = slot_of(element, name) else {
            return;
        };
        let bit = 1 << slot as u8;
        // Only the first attribute of a name counts.
        if self.seen & bit == 0 {
            self.seen |= bit;
            self.cut |= if value.cut { bit } else { 0 };
            value.decode_into(&mut self.slots[slot as usize]);
        }
    }

    /// Returns the value without the white space around it.
    #[inline]
    pub fn value(&self, slot: Slot) -> Option<&[u8]> {
        (self.seen & (1 << slot as u8) != 0).then(|| self.slots[slot as usize].trim_ascii())
    }

    /// Reports whether the value is the keyword `wanted`. Space around the value counts, as it does
    /// in browsers.
    pub fn is(&self, slot: Slot, wanted: &[u8]) -> bool {
        self.seen & (1 << slot as u8) != 0 && self.slots[slot as usize].eq_ignore_ascii_case(wanted)
    }

    /// Returns the value of an `href`, decoded and trimmed as [`take`](Attributes::take) and
    /// [`value`](Attributes::value) do it.
    pub fn target(&mut self, raw: &[u8]) -> &[u8] {
        let slot = &mut self.slots[Slot::Target as usize];
        Value { raw, cut: false }.decode_into(slot);
        slot.trim_ascii()
    }

    pub fn is_cut(&self, slot: Slot) -> bool {
        self.cut & (1 << slot as u8) != 0
    }
}

#[inline]
fn slot_of(element: TagName, name: &[u8]) -> Option<Slot> {
    let is = |wanted: &[u8]| name.eq_ignore_ascii_case(wanted);
    match element {
        TagName::A | TagName::AREA | TagName::LINK if is(b"href") => Some(Slot::Target),
        TagName::A | TagName::AREA | TagName::LINK if is(b"rel") => Some(Slot::Rel),
        TagName::BASE if is(b"href") => Some(Slot::Target),
        TagName::IFRAME | TagName::FRAME if is(b"src") => Some(Slot::Target),
        TagName::HTML if is(b"lang") => Some(Slot::Lang),
        TagName::META if is(b"name") => Some(Slot::Name),
        TagName::META if is(b"content") => Some(Slot::Content),
        TagName::META if is(b"http-equiv") => Some(Slot::HttpEquiv),
        TagName::META if is(b"charset") => Some(Slot::Charset),
        _ => None,
    }
}
