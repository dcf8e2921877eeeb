//! Plots as SVG text: lines over a linear or a logarithmic axis, and stacked bars. They need no
//! script and no other file, so that a report is one page that can be mailed.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 44.0;
const COLOURS: [&str; 12] = [
    "#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#d9a521", "#4b5563", "#17a2b8", "#b5179e",
    "#7f5539", "#2a9d8f", "#9d0208", "#6c757d",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Log,
}

/// Named lines over common axes.
#[derive(Clone, Debug)]
pub struct Lines {
    pub title: String,
    pub x: (&'static str, Scale),
    pub y: (&'static str, Scale),
    /// Labels along x by value, in the place of numbers.
    pub x_marks: Vec<(f64, String)>,
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// Bars, each a stack of the same named parts.
#[derive(Clone, Debug)]
pub struct Bars {
    pub title: String,
    pub unit: &'static str,
    pub parts: Vec<String>,
    pub bars: Vec<(String, Vec<f64>)>,
}

struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let is_shown = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(is_shown) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        match scale {
            Scale::Linear => low = low.min(0.0),
            Scale::Log => {
                low = 10f64.powf(low.log10().floor());
                high = 10f64.powf(high.log10().ceil());
            }
        }
        if high <= low {
            high = low + 1.0;
        }
        Axis { scale, low, high, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => {
                let value = value.max(self.low);
                (value / self.low).log10() / (self.high / self.low).log10()
            }
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Log => {
                let count = (self.high / self.low).log10().round() as i32;
                (0..=count).map(|power| self.low * 10f64.powi(power)).collect()
            }
            Scale::Linear => {
                let rough = (self.high - self.low) / 5.0;
                let unit = 10f64.powf(rough.log10().floor());
                let steps = [1.0, 2.0, 5.0, 10.0];
                let step =
                    unit * steps.into_iter().find(|step| step * unit >= rough).unwrap_or(10.0);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step).floor() as i64;
                (first..=last).map(|index| index as f64 * step).collect()
            }
        }
    }
}

impl Lines {
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|(_, points)| points);
        let x = Axis::new(self.x.1, points().map(|point| point.0), LEFT, WIDTH - RIGHT);
        let y = Axis::new(self.y.1, points().map(|point| point.1), HEIGHT - BOTTOM, TOP);
        let mut out = opened(&self.title);
        grid(&mut out, &y, self.y.0);
        let marks = match self.x_marks.is_empty() {
            true => x.ticks().into_iter().map(|at| (at, short(at))).collect(),
            false => self.x_marks.clone(),
        };
        for (at, text) in marks {
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" class=\"m\">{}</text>",
                x.place(at),
                HEIGHT - BOTTOM + 16.0,
                escaped(&text)
            );
        }
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"m\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            self.x.0
        );
        for (index, (name, points)) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let mut path = String::new();
            for (px, py) in points.iter().filter(|(_, py)| py.is_finite()) {
                let _ = write!(path, "{:.1},{:.1} ", x.place(*px), y.place(*py));
            }
            let _ = write!(
                out,
                "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" \
                 stroke-width=\"1.6\"/>"
            );
            legend(&mut out, index, colour, name);
        }
        out.push_str("</svg>");
        out
    }
}

impl Bars {
    pub fn svg(&self) -> String {
        let sums = self.bars.iter().map(|(_, parts)| parts.iter().sum::<f64>());
        let y = Axis::new(Scale::Linear, sums, HEIGHT - BOTTOM, TOP);
        let mut out = opened(&self.title);
        grid(&mut out, &y, self.unit);
        let step = (WIDTH - RIGHT - LEFT) / self.bars.len().max(1) as f64;
        for (index, (name, parts)) in self.bars.iter().enumerate() {
            let left = LEFT + step * (index as f64 + 0.2);
            let mut below = 0.0;
            for (part, value) in parts.iter().enumerate() {
                let (top, bottom) = (y.place(below + value), y.place(below));
                let _ = write!(
                    out,
                    "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                     fill=\"{}\"><title>{}: {value:.2}</title></rect>",
                    step * 0.6,
                    (bottom - top).max(0.0),
                    COLOURS[part % COLOURS.len()],
                    escaped(&self.parts[part]),
                );
                below += value;
            }
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" class=\"m\">{}</text>",
                left + step * 0.3,
                HEIGHT - BOTTOM + 16.0,
                escaped(name)
            );
        }
        for (index, part) in self.parts.iter().enumerate() {
            legend(&mut out, index, COLOURS[index % COLOURS.len()], part);
        }
        out.push_str("</svg>");
        out
    }
}

fn opened(title: &str) -> String {
    format!(
        "<h3>{}</h3><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         role=\"img\">",
        escaped(title)
    )
}

fn grid(out: &mut String, y: &Axis, unit: &str) {
    for at in y.ticks() {
        let place = y.place(at);
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{place:.1}\" y2=\"{place:.1}\" class=\"g\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" class=\"r\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            place + 4.0,
            short(at)
        );
    }
    let _ = write!(out, "<text x=\"4\" y=\"12\">{}</text>", escaped(unit));
}

fn legend(out: &mut String, index: usize, colour: &str, name: &str) {
    let (x, y) = (WIDTH - RIGHT + 12.0, TOP + 16.0 * index as f64 + 8.0);
    let _ = write!(
        out,
        "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        y - 9.0,
        x + 15.0,
        y,
        escaped(name)
    );
}

/// Formats a number for an axis.
fn short(value: f64) -> String {
    let magnitude = value.abs();
    let (value, unit) = match magnitude {
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e4.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_from_corner_to_corner_and_names_are_escaped() {
        let series = vec![("<a>".to_owned(), vec![(0.0, 0.0), (10.0, 50.0)])];
        let (x, y) = (("s", Scale::Linear), ("pages", Scale::Linear));
        let plot = Lines { title: "t".to_owned(), x, y, x_marks: Vec::new(), series };
        let svg = plot.svg();
        let corners = format!("{LEFT:.1},{:.1} {:.1},{TOP:.1} ", HEIGHT - BOTTOM, WIDTH - RIGHT);
        assert!(svg.contains(&corners), "{svg}");
        assert!(svg.contains("&lt;a&gt;") && !svg.contains("<a>"), "{svg}");
    }

    #[test]
    fn a_logarithmic_axis_has_a_mark_a_decade_and_bears_zero() {
        let axis = Axis::new(Scale::Log, [0.0, 3.0, 2_000.0].into_iter(), 0.0, 100.0);
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        assert_eq!((axis.place(0.0), axis.place(100.0)), (0.0, 50.0));
    }

    #[test]
    fn numbers_on_an_axis_are_short() {
        let texts = [0.25, 1_500.0, 20_000.0, 3e6].map(short);
        assert_eq!(texts, ["0.25", "1500", "20k", "3M"]);
    }
}
