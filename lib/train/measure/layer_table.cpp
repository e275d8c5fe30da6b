#include "train/measure/layer_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace trainctl::train {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string output_text(const LayerRow& row) {
  return row.output.empty() ? std::string() : shape_text(row.output);
}

std::string head_text(const LayerTableHead& head) {
  const std::string steps =
      fmt::format("The mean of {} step{}. ", head.steps, head.steps == 1 ? "" : "s");
  if (head.on_device)
    return steps +
           "Times are the GPU's, between marks on its stream: where the GPU waits for the host, "
           "the "
           "waiting counts.\n\n";
  return steps + "Times are those of the CPU, while they were recorded.\n\n";
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string layers_as_csv(const std::vector<LayerRow>& rows) {
  std::string text = "layer,kind,calls,forward_ms,backward_ms,share,gflop,output\n";
  for (const LayerRow& row : rows) {
    fmt::format_to(std::back_inserter(text), "{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.10g},{}\n",
                   quoted(row.layer), row.kind, row.calls, row.forward_ms, row.backward_ms,
                   row.share, row.gflops, quoted(output_text(row)));
  }
  return text;
}

std::string layers_as_text(const std::vector<LayerRow>& rows, const LayerTableHead& head) {
  constexpr std::size_t kMostWidth = 48;
  std::size_t width = 5;
  for (const LayerRow& row : rows) width = std::clamp(row.layer.size(), width, kMostWidth);
  std::string text = head_text(head);
  fmt::format_to(std::back_inserter(text), "{:<{}} {:<20} {:>6} {:>11} {:>11} {:>6} {:>10} {}\n",
                 "layer", width, "kind", "calls", "forward ms", "backward ms", "share", "GFLOP",
                 "output");
  for (const LayerRow& row : rows) {
    fmt::format_to(std::back_inserter(text),
                   "{:<{}.{}} {:<20.20} {:>6.4g} {:>11.3f} {:>11.3f} {:>5.1f}% {:>10.4g} {}\n",
                   row.layer, width, width, row.kind, row.calls, row.forward_ms, row.backward_ms,
                   100 * row.share, row.gflops, output_text(row));
  }
  return text;
}

}  // namespace trainctl::train
