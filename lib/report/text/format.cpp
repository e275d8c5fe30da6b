#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace trainctl::report {
namespace {

struct CodePoints {
  char32_t first;
  char32_t last;
};

// Unicode's East Asian Width W and F, and the combining marks, in coarse ranges, which are enough
// for names of metrics and paths.
constexpr std::array<CodePoints, 12> kWide{{{0x1100, 0x115F},
                                            {0x2E80, 0x303E},
                                            {0x3041, 0xA4CF},
                                            {0xA960, 0xA97F},
                                            {0xAC00, 0xD7A3},
                                            {0xF900, 0xFAFF},
                                            {0xFE30, 0xFE6F},
                                            {0xFF00, 0xFF60},
                                            {0xFFE0, 0xFFE6},
                                            {0x1F300, 0x1F64F},
                                            {0x1F900, 0x1F9FF},
                                            {0x20000, 0x3FFFD}}};
constexpr std::array<CodePoints, 5> kMarks{
    {{0x0300, 0x036F}, {0x1AB0, 0x1AFF}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};

template <std::size_t N>
bool is_in(const std::array<CodePoints, N>& ranges, char32_t point) {
  for (const CodePoints& range : ranges) {
    if (point >= range.first && point <= range.last) return true;
  }
  return false;
}

std::size_t sequence_length(unsigned char first) {
  if (first >= 0xF0) return 4;
  if (first >= 0xE0) return 3;
  return first >= 0xC0 ? 2 : 1;
}

char32_t code_point(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  char32_t point = byte(0) & (0x7Fu >> sequence.size());
  for (std::size_t i = 1; i < sequence.size(); ++i) point = (point << 6) | (byte(i) & 0x3Fu);
  return point;
}

int width_of(char32_t point) {
  if (is_in(kMarks, point)) return 0;
  return is_in(kWide, point) ? 2 : 1;
}

constexpr std::array kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array kAscii{"_", ".", "-", "~", "=", "+", "*", "#"};

std::vector<double> means_of(std::span<const double> values, std::size_t cells) {
  std::vector<double> means;
  for (std::size_t i = 0; i < cells; ++i) {
    const std::size_t begin = i * values.size() / cells;
    const std::size_t end = (i + 1) * values.size() / cells;
    double sum = 0;
    for (const double value : values.subspan(begin, end - begin)) sum += value;
    means.push_back(sum / static_cast<double>(end - begin));
  }
  return means;
}

}  // namespace

std::string paint(std::string_view text, Ink ink, const Style& style) {
  if (style.colors == Colors::off || text.empty()) return std::string(text);
  constexpr std::array kCodes{"1", "2", "31", "32", "33", "36"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(ink)], text);
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const std::size_t length =
        std::min(sequence_length(static_cast<unsigned char>(text[0])), text.size());
    width += width_of(code_point(text.substr(0, length)));
    text.remove_prefix(length);
  }
  return width;
}

std::string pad(std::string_view text, int width, Align align) {
  const int missing = width - display_width(text);
  const std::string space(missing > 0 ? static_cast<std::size_t>(missing) : 0, ' ');
  return align == Align::left ? std::string(text) + space : space + std::string(text);
}

std::string clip(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  constexpr int kDots = 3;
  std::string kept;
  int used = 0;
  while (!text.empty()) {
    const std::size_t length =
        std::min(sequence_length(static_cast<unsigned char>(text[0])), text.size());
    used += width_of(code_point(text.substr(0, length)));
    if (used > width - kDots) break;
    kept += text.substr(0, length);
    text.remove_prefix(length);
  }
  return kept + std::string(static_cast<std::size_t>(std::max(0, std::min(kDots, width))), '.');
}

std::string metric_text(double value) {
  if (!std::isfinite(value)) return exact_text(value);
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e6)) return fmt::format("{:.2e}", value);
  if (size < 100) return fmt::format("{:.4f}", value);
  return fmt::format("{:.1f}", value);
}

std::string exact_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return fmt::format("{}", value);
}

std::string rate_text(double value) {
  if (!std::isfinite(value)) return exact_text(value);
  return std::abs(value) < 100 ? fmt::format("{:.1f}", value) : with_thousands(std::llround(value));
}

std::string percent_text(double share) {
  return std::isfinite(share) ? fmt::format("{:.0f}", 100 * share) : "-";
}

Json json_number(double value) {
  return std::isfinite(value) ? Json(value) : Json(exact_text(value));
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json json_value(const Interval& interval) {
  return Json::array({json_number(interval.low), json_number(interval.high)});
}

Json json_value(const Quartiles& quartiles) { return JSON_FIELDS(quartiles, median, q1, q3); }

Json json_value(const Speedup& speedup) { return JSON_FIELDS(speedup, value, ci95); }

void add_new(std::vector<std::string>& list, const std::string& text) {
  if (std::ranges::find(list, text) == list.end()) list.push_back(text);
}

Json json_value(const std::vector<std::pair<std::string, double>>& numbers) {
  Json object = Json::object();
  for (const auto& [name, value] : numbers) object[name] = json_number(value);
  return object;
}

Json joined(std::initializer_list<Json> objects) {
  Json all = Json::object();
  for (const Json& object : objects) all.update(object);
  return all;
}

std::string fact_line(std::string_view label, const std::string& text, const Style& style,
                      int label_width) {
  return "  " + paint(pad(label, label_width, Align::left), Ink::cyan, style) + text + '\n';
}

std::string sparkline(std::span<const double> values, Glyphs glyphs, const Spark& spark) {
  const std::vector<double> means =
      means_of(values, std::min(values.size(), std::max<std::size_t>(spark.width, 1)));
  const Interval scale = spark.scale.value_or(extent_of(means));
  const auto& heights = glyphs == Glyphs::unicode ? kBlocks : kAscii;
  std::string line;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      line += spark.gap;
      continue;
    }
    const double extent = scale.high - scale.low;
    const double place = extent > 0 ? std::clamp((mean - scale.low) / extent, 0.0, 1.0) : 0;
    line += heights.at(std::min<std::size_t>(static_cast<std::size_t>(place * 8), 7));
  }
  return line;
}

}  // namespace trainctl::report
