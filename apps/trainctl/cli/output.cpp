#include "cli/output.hpp"

#include "cli/standard_streams.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace trainctl::app {
namespace {

constexpr int kWidthOfFiles = 120;
constexpr int kNarrowest = 20;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

int width_of(std::FILE* stream) {
  const int columns = std::atoi(std::string(environment("COLUMNS")).c_str());
  if (columns >= kNarrowest) return columns;
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col >= kNarrowest)
    return size.ws_col;
  return kWidthOfFiles;
}

// The order in which POSIX looks for the locale of characters.
report::Glyphs glyphs_of_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = environment(name);
    if (locale.empty()) continue;
    const bool utf8 = locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
    return utf8 ? report::Glyphs::unicode : report::Glyphs::ascii;
  }
  return report::Glyphs::ascii;
}

}  // namespace

report::Style style_for(const Context& context, std::FILE* stream) {
  const bool colored = color_for(context, stream) == config::Color::on;
  return {.glyphs = glyphs_of_locale(),
          .colours = colored ? report::Colours::on : report::Colours::off,
          .width = width_of(stream)};
}

report::ProgressMode progress_for(const Context& context) {
  using report::ProgressMode;
  if (context.quiet) return ProgressMode::none;
  const report::Device device =
      ::isatty(STDERR_FILENO) != 0 ? report::Device::terminal : report::Device::file;
  switch (context.progress) {
    case app::ProgressMode::tty: return ProgressMode::tty;
    case app::ProgressMode::plain: return ProgressMode::plain;
    case app::ProgressMode::none: return ProgressMode::none;
    case app::ProgressMode::automatic: break;
  }
  return report::resolve(ProgressMode::automatic, device);
}

report::Write writer_for(std::FILE* stream) {
  return [stream](std::string_view text) { write_text(stream, text, Flush::now); };
}

}  // namespace trainctl::app
