#include <algorithm>

#include "commands/common.h"
#include "common/json_writer.h"
#include "common/print_to.h"
#include "plan_file.h"
#include "text/template/text.h"

namespace onepass::tool {
namespace {

constexpr int box_width = 236, box_height = 38, gap = 16, level_width = 272, margin = 24;
constexpr int head = 116;                     // text, numbers of levels
constexpr int skip_step = 10, max_skips = 8;  // lanes below for edges over several levels
constexpr std::size_t least_folded = 3;       // equal groups

// Control characters become spaces: XML has no way to write them.
std::string escaped(const std::string& text) {
  std::string out = llm::chat::html_escaped(valid_utf8(text));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n') c = ' ';
  }
  return out;
}

// By whole code points.
std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "\u2026";
}

bool is_fused(const SavedPlan& plan, const PlanStep& step) {
  return std::any_of(plan.fused.begin(), plan.fused.end(), [&](const auto& rule) {
    const std::string& name = rule.first;
    return step.kernel.starts_with(name) &&
           (step.kernel.size() == name.size() || step.kernel[name.size()] == '_');
  });
}

struct Corner {
  int x = 0, y = 0;  // of the upper left corner
};

constexpr const char* style =
    "<style>\n"
    "svg{background:#fff;font-family:system-ui,sans-serif;font-size:13px}\n"
    "text{fill:#1c2430}.dim{fill:#5b6776;font-size:11px}.title{font-size:16px;font-weight:600}\n"
    ".box{fill:#eef2f7;stroke:#8a97a8}.fused{fill:#d9ecff;stroke:#1769aa;stroke-width:1.5}\n"
    ".fence{fill:#1c2430}.edge{fill:none;stroke:#5b6776;stroke-width:1.3}\n"
    ".fold{fill:none;stroke:#1769aa;stroke-width:1.5;stroke-dasharray:3 3}"
    ".times{font-weight:600}.far{stroke:#b4530a}.level{stroke:#c3ccd8;stroke-dasharray:5 4}\n"
    "@media (prefers-color-scheme:dark){svg{background:#14181f}text{fill:#e6ebf2}"
    ".dim{fill:#9aa7b8}.box{fill:#232a35;stroke:#5f6c7e}.fused{fill:#143452;stroke:#5aa9e6}"
    ".fence{fill:#e6ebf2}.edge{stroke:#9aa7b8}.far{stroke:#f0a35e}.level{stroke:#3a4454}}\n"
    "</style>\n";

// Steps drawn once for `times` groups of them that follow each other: layers of a model.
struct Fold {
  std::size_t first = 0, period = 0, times = 1;

  std::size_t begin() const { return first + period; }  // of what is not drawn
  std::size_t end() const { return first + period * times; }
  bool hides(std::size_t i) const { return i >= begin() && i < end(); }
};

// The same work, and waits for the same steps counted from itself.
bool are_equal(const SavedPlan& plan, std::size_t a, std::size_t b) {
  const PlanStep &x = plan.steps[a], &y = plan.steps[b];
  if (x.kernel != y.kernel || x.tiles != y.tiles || x.bytes_moved != y.bytes_moved ||
      x.after.size() != y.after.size()) {
    return false;
  }
  for (std::size_t i = 0; i < x.after.size(); ++i) {
    if (a - x.after[i] != b - y.after[i]) return false;
  }
  return true;
}

// What hides most steps. Groups begin at a level of their own.
Fold best_fold(const SavedPlan& plan) {
  Fold best;
  const std::size_t n = plan.steps.size();
  for (std::size_t period = 1; period * least_folded <= n; ++period) {
    std::size_t run = 0;  // of steps that equal the one a period before
    for (std::size_t i = period; i < n; ++i) {
      run = are_equal(plan, i, i - period) ? run + 1 : 0;
      const std::size_t times = run / period + 1, first = i + 1 - run - period;
      if (times < least_folded || run % period != 0) continue;
      const bool apart = first == 0 || plan.steps[first].level > plan.steps[first - 1].level;
      const bool more = best.times == 1 || run > best.end() - best.begin();
      if (apart && more) best = {first, period, times};
    }
  }
  return best;
}

// Draws one plan: a column for each level that is shown.
class Picture {
 public:
  Picture(const SavedPlan& plan, bool fold)
      : plan_(plan), fold_(fold ? best_fold(plan) : Fold{}), places_(plan.steps.size()) {
    place();
  }

  std::string text() const {
    std::string out;
    print_to(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
             "viewBox=\"0 0 %d %d\" role=\"img\">\n",
             width_, height_, width_, height_);
    out += "<title>" + escaped("Plan of " + plan_.model) + "</title>\n" + style;
    out += "<text class=\"title\" x=\"" + std::to_string(margin) + "\" y=\"30\">" +
           escaped(shortened(plan_.model, 60)) + "</text>\n";
    print_to(out, "<text class=\"dim\" x=\"%d\" y=\"50\">%s, arena %s</text>\n", margin,
             plan_.counts_text().c_str(), show_bytes(plan_.arena_bytes).c_str());
    draw_levels(out);
    draw_fold(out);
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) draw_edges(out, i);
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) draw_step(out, i);
    return out + "</svg>\n";
  }

 private:
  void place() {
    std::uint32_t last = 0;
    int tallest = 1;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const std::uint32_t level = plan_.steps[i].level;
      const bool begins = i == 0 || level != last;
      last = level;
      if (fold_.hides(i)) continue;
      if (begins) columns_.push_back({level, 0});
      const auto column = static_cast<int>(columns_.size()) - 1;
      places_[i] = {margin + column * level_width,
                    head + columns_.back().used++ * (box_height + gap)};
      tallest = std::max(tallest, columns_.back().used);
    }
    bottom_ = head + tallest * (box_height + gap);
    width_ = std::max(static_cast<int>(columns_.size()) * level_width + margin, 480);
    height_ = bottom_ + (has_far_edges() ? max_skips * skip_step : 0) + margin;
  }

  void draw_levels(std::string& out) const {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const int x = margin + static_cast<int>(c) * level_width;
      print_to(out, "<text class=\"dim\" x=\"%d\" y=\"%d\">%u</text>\n", x, head - 10,
               columns_[c].level);
      if (c == 0) continue;
      const int line = x - (level_width - box_width) / 2;
      print_to(out, "<line class=\"level\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", line,
               head - 22, line, height_ - margin);
    }
  }

  bool is_far(const Corner& from, const Corner& to) const { return to.x - from.x > level_width; }
  bool has_far_edges() const {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      for (const std::uint32_t before : plan_.steps[i].after) {
        if (!fold_.hides(i) && is_far(places_[drawn(before)], places_[i])) return true;
      }
    }
    return false;
  }

  // A frame around what stands for several groups.
  void draw_fold(std::string& out) const {
    if (fold_.times == 1) return;
    const int from = places_[fold_.first].x - 12;
    const int to = places_[fold_.begin() - 1].x + box_width + 12;
    print_to(out, "<rect class=\"fold\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n",
             from, head - 26, to - from, bottom_ - head + 30);
    print_to(out, "<text class=\"times\" x=\"%d\" y=\"%d\">%zu \u00d7 the same %zu steps</text>\n",
             from + 4, head - 32, fold_.times, fold_.period);
  }

  // Where a step that is not drawn would be, in the group that is.
  std::size_t drawn(std::size_t i) const {
    return fold_.hides(i) ? fold_.first + (i - fold_.first) % fold_.period : i;
  }

  void draw_edges(std::string& out, std::size_t i) const {
    if (fold_.hides(i)) return;
    for (const std::uint32_t before : plan_.steps[i].after) {
      const Corner from = places_[drawn(before)], to = places_[i];
      const int x1 = from.x + box_width, y1 = from.y + box_height / 2;
      const int x2 = to.x, y2 = to.y + box_height / 2;
      if (!is_far(from, to)) {
        const int bend = (level_width - box_width) / 2;
        print_to(out, "<path class=\"edge\" d=\"M%d %dC%d %d %d %d %d %d\"/>\n", x1, y1, x1 + bend,
                 y1, x2 - bend, y2, x2, y2);
        continue;
      }
      // Below the boxes in between.
      const int y = bottom_ + static_cast<int>(i % max_skips) * skip_step;
      const int x3 = from.x + box_width / 2, x4 = to.x + box_width / 2;
      print_to(out, "<path class=\"edge far\" d=\"M%d %dV%dQ%d %d %d %dH%dQ%d %d %d %dV%d\"/>\n",
               x3, from.y + box_height, y - 8, x3, y, x3 + 8, y, x4 - 8, x4, y, x4, y - 8,
               to.y + box_height);
    }
  }

  void draw_step(std::string& out, std::size_t i) const {
    if (fold_.hides(i)) return;
    const PlanStep& s = plan_.steps[i];
    const Corner at = places_[i];
    if (s.is_fence()) {
      print_to(out, "<rect class=\"fence\" x=\"%d\" y=\"%d\" width=\"4\" height=\"%d\"/>\n",
               at.x + box_width / 2, at.y, box_height);
      return;
    }
    const bool fused = is_fused(plan_, s);
    out += "<g><title>" +
           escaped("step " + std::to_string(i) + ", level " + std::to_string(s.level) + ": " +
                   s.kernel + (fused ? " (fused)" : "") + ", " + show_bytes(s.bytes_moved) + ", " +
                   std::to_string(s.tiles) + (s.tiles == 1 ? " tile" : " tiles")) +
           "</title>";
    print_to(out, "<rect class=\"box%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>",
             fused ? " fused" : "", at.x, at.y, box_width, box_height);
    print_to(out, "<text x=\"%d\" y=\"%d\">", at.x + 10, at.y + 16);
    out += escaped(shortened(s.kernel, 30)) + "</text>";
    print_to(out, "<text class=\"dim\" x=\"%d\" y=\"%d\">", at.x + 10, at.y + 31);
    out += escaped("#" + std::to_string(i) + "  " +
                   (s.label.empty() ? "" : shortened(s.label, 18) + "  ") +
                   show_bytes(s.bytes_moved)) +
           "</text></g>\n";
  }

  struct Column {
    std::uint32_t level = 0;
    int used = 0;  // boxes
  };

  const SavedPlan& plan_;
  const Fold fold_;
  std::vector<Corner> places_;
  std::vector<Column> columns_;
  int bottom_ = 0, width_ = 0, height_ = 0;
};

}  // namespace

std::string plan_svg(const SavedPlan& plan, bool fold) { return Picture(plan, fold).text(); }

}  // namespace onepass::tool
