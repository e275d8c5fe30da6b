#include "report/text/top.hpp"

#include "base/clock.hpp"
#include "cli/context.hpp"
#include "cli/output.hpp"
#include "full_screen.hpp"
#include "study/folder/run_lookup.hpp"
#include "study/live/live_run.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <unistd.h>

#include <memory>
#include <string>

namespace trainctl::app {
namespace {

struct TopFlags {
  std::string run = "latest";
  std::string out = "runs";
  double interval = 1;
  bool once = false;
};

void print_once(const report::TopView& view, const Context& context) {
  if (context.json) {
    print_json(report::top_json(view));
  } else {
    put(stdout, report::top_text(view, style_for(context, stdout)));
  }
}

/// Until the run has ended, or somebody types q.
report::TopView watch(study::LiveRun& run, double interval, const Context& context) {
  const FullScreen screen;
  for (;;) {
    const report::TopView view = run.look(steady_clock().now());
    if (view.state == report::TopState::ended || view.state == report::TopState::gone) return view;
    report::Style style = style_for(context, stdout);
    style.width = screen.width();
    const std::string text = report::top_text(view, style, screen.height() - 1);
    screen.draw(text + paint("q ends", report::Ink::dim, style));
    FullScreen::Wish wish = screen.wait(interval);
    if (wish == FullScreen::Wish::end) return view;
  }
}

int top(const TopFlags& flags, const Context& context) {
  study::LiveRun run(study::find_run(flags.run, flags.out));
  const bool on_screen = !flags.once && !context.json && ::isatty(STDOUT_FILENO) == 1;
  const report::TopView first = run.look(steady_clock().now());
  const bool lives =
      first.state == report::TopState::running || first.state == report::TopState::elsewhere;
  if (!on_screen || !lives) {
    print_once(first, context);
  } else {
    print_once(watch(run, flags.interval, context), context);
  }
  return 0;
}

}  // namespace

void add_top(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<TopFlags>();
  CLI::App& verb = add_verb(
      program, context,
      {"top", "watch a run of another process: ranks, speed, loss, what is left", kTrainGroup},
      [flags, &context] { return top(*flags, context); });
  verb.add_option("run", flags->run,
                  "a run folder, the name of an experiment for its newest run, or latest")
      ->type_name("RUN")
      ->capture_default_str();
  verb.add_option("--out", flags->out, "folder that holds the runs")
      ->type_name("DIR")
      ->capture_default_str();
  verb.add_option("--interval", flags->interval, "seconds between two looks")
      ->type_name("S")
      ->check(CLI::Range(0.1, 3600.0).description(""))
      ->capture_default_str();
  verb.add_flag("--once", flags->once, "print once, as text; so does a stdout that is no terminal");
  verb.footer("q or Ctrl-C ends it; the run goes on. Of a run that has ended it tells how.");
}

}  // namespace trainctl::app
