#include "console.hpp"

#include "terminal.hpp"

namespace trainctl::app {
namespace {

void discard(std::string_view) {}

}  // namespace

report::ConsoleOptions console_options(const Context& context) {
  report::ConsoleOptions options;
  options.results = context.json || context.quiet ? discard : writer_for(stdout);
  options.messages = context.quiet ? discard : writer_for(stderr);
  options.results_style = style_for(context, stdout);
  options.messages_style = style_for(context, stderr);
  options.progress = progress_for(context);
  return options;
}

}  // namespace trainctl::app
