#include "config/sample.hpp"
#include "config/schema/dump.hpp"
#include "config/support.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

// libFuzzer: any bytes are accepted or refused, and an accepted config survives its dump. The first
// line is an override if it begins with '='.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> overrides;
  if (text.starts_with('=')) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    overrides.emplace_back(text.substr(1, end - 1));
    text.remove_prefix(end);
  }
  trainctl::config::Diagnostics diagnostics;
  const auto tree = trainctl::config::finish_tree(
      trainctl::config::load_text("fuzz.yaml", text, diagnostics), overrides, diagnostics);
  const sample::Experiment read = sample::read(tree, diagnostics);
  if (diagnostics.error_count() > 0) {
    if (diagnostics.render().empty()) std::abort();
    return 0;
  }
  const std::string dumped =
      trainctl::config::dump(trainctl::config::write_options(sample::schema(), &read));
  const sample::Experiment back = sample::experiment(dumped);
  if (trainctl::config::dump(trainctl::config::write_options(sample::schema(), &back)) != dumped)
    std::abort();
  return 0;
}
