#include <algorithm>

#include "commands/common.h"
#include "common/json_writer.h"
#include "common/print_to.h"
#include "plan_file.h"
#include "text/template/text.h"

namespace onepass::tool {
namespace {

constexpr int box_width = 236, box_height = 38, gap = 24, level_height = 66, margin = 24;
constexpr int head = 78, number_width = 44;
constexpr int skip_step = 10, max_skips = 8;  // lanes at the right for edges over several levels

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
    ".far{stroke:#b4530a}.level{stroke:#c3ccd8;stroke-dasharray:5 4}\n"
    "@media (prefers-color-scheme:dark){svg{background:#14181f}text{fill:#e6ebf2}"
    ".dim{fill:#9aa7b8}.box{fill:#232a35;stroke:#5f6c7e}.fused{fill:#143452;stroke:#5aa9e6}"
    ".fence{fill:#e6ebf2}.edge{stroke:#9aa7b8}.far{stroke:#f0a35e}.level{stroke:#3a4454}}\n"
    "</style>\n";

}  // namespace

std::string plan_svg(const SavedPlan& plan) {
  const std::uint32_t levels = plan.levels();
  std::vector<int> in_level(levels, 0);
  for (const PlanStep& s : plan.steps) ++in_level[s.level];
  const int widest = in_level.empty() ? 1 : *std::max_element(in_level.begin(), in_level.end());
  const int columns = widest * (box_width + gap) - gap;
  const int right = number_width + margin + columns;
  const int width = right + margin + max_skips * skip_step + margin;
  const int height = head + static_cast<int>(levels) * level_height + margin;

  std::vector<Corner> places;
  std::vector<int> used(levels, 0);
  for (const PlanStep& s : plan.steps) {
    const int row = in_level[s.level] * (box_width + gap) - gap;
    const int x = number_width + margin + (columns - row) / 2 + used[s.level]++ * (box_width + gap);
    places.push_back({x, head + static_cast<int>(s.level) * level_height});
  }

  std::string out;
  print_to(out,
           "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
           "viewBox=\"0 0 %d %d\" role=\"img\">\n",
           width, height, width, height);
  out += "<title>" + escaped("Plan of " + plan.model) + "</title>\n" + style;
  out += "<text class=\"title\" x=\"" + std::to_string(margin) + "\" y=\"30\">" +
         escaped(shortened(plan.model, 40)) + "</text>\n";
  print_to(out, "<text class=\"dim\" x=\"%d\" y=\"50\">%s, arena %s</text>\n", margin,
           plan.counts_text().c_str(), show_bytes(plan.arena_bytes).c_str());
  for (std::uint32_t level = 0; level < levels; ++level) {
    const int y = head + static_cast<int>(level) * level_height;
    print_to(out, "<text class=\"dim\" x=\"%d\" y=\"%d\">%u</text>\n", margin,
             y + box_height / 2 + 4, level);
    if (level == 0) continue;
    const int line = y - (level_height - box_height) / 2;
    print_to(out, "<line class=\"level\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", margin, line,
             width - margin, line);
  }
  int next_skip = 0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (const std::uint32_t p : plan.steps[i].after) {
      const Corner from = places[p], to = places[i];
      const int x1 = from.x + box_width / 2, y1 = from.y + box_height;
      const int x2 = to.x + box_width / 2, y2 = to.y;
      if (plan.steps[i].level <= plan.steps[p].level + 1) {
        const int bend = std::max(level_height - box_height, 0) / 2;
        print_to(out, "<path class=\"edge\" d=\"M%d %dC%d %d %d %d %d %d\"/>\n", x1, y1, x1,
                 y1 + bend, x2, y2 - bend, x2, y2);
        continue;
      }
      // Around the boxes in between.
      const int x = right + margin + next_skip * skip_step;
      next_skip = (next_skip + 1) % max_skips;
      const int y3 = from.y + box_height / 2, y4 = to.y + box_height / 2;
      print_to(out, "<path class=\"edge far\" d=\"M%d %dH%dQ%d %d %d %dV%dQ%d %d %d %dH%d\"/>\n",
               from.x + box_width, y3, x - 8, x, y3, x, y3 + 8, y4 - 8, x, y4, x - 8, y4,
               to.x + box_width);
    }
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& s = plan.steps[i];
    const Corner at = places[i];
    if (s.is_fence()) {
      print_to(out, "<rect class=\"fence\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"4\"/>\n", at.x,
               at.y + box_height / 2, box_width);
      continue;
    }
    const bool fused = is_fused(plan, s);
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
  return out + "</svg>\n";
}

}  // namespace onepass::tool
