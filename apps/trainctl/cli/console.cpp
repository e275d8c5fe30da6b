#include "cli/console.hpp"

#include "cli/output.hpp"
#include "cli/standard_streams.hpp"
#include "log/log.hpp"

namespace trainctl::app {
namespace {

void discard(std::string_view) {}

}  // namespace

report::ConsoleOptions console_options(const Context& context, std::vector<std::string> metrics) {
  report::ConsoleOptions options;
  options.metrics = std::move(metrics);
  options.results = context.json || context.quiet ? discard : writer_for(stdout);
  options.messages = context.quiet ? discard : writer_for(stderr);
  options.results_style = style_for(context, stdout);
  options.messages_style = style_for(context, stderr);
  options.progress = progress_for(context);
  options.take_notice = take_lost_output_notice;
  return options;
}

void set_up_log(const Context& context) {
  log::Level level = log::Level::normal;
  if (context.verbosity == 1) level = log::Level::verbose;
  if (context.verbosity > 1) level = log::Level::debug;
  if (context.quiet) level = log::Level::quiet;
  const bool colored = color_for(context, stderr) == config::Color::on;
  log::set_up(level, colored ? log::Colours::on : log::Colours::off);
}

}  // namespace trainctl::app
