#include "cli/help.hpp"
#include "cli/verb.hpp"
#include "data/formats/mapped_file.hpp"
#include "program.hpp"
#include "study/nodes/node_plan.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>

namespace trainctl::app {
namespace {

// The commands in the order of `trainctl --help`.
constexpr std::array kVerbs{
    add_run,           add_eval,    add_predict, add_worker,   add_bench,      add_tune,
    add_sweep,         add_compare, add_report,  add_lr_find,  add_top,        add_checkpoint,
    add_verify_resume, add_init,    add_data,    add_validate, add_plan,       add_show_config,
    add_explain,       add_list,    add_schema,  add_doctor,   add_completion, add_version,
};

void describe_program(CLI::App& program, Context& context) {
  program.name("trainctl");
  program.formatter_fn(
      [](const CLI::App* app, std::string, CLI::AppFormatMode) { return help_text(*app); });
  program.require_subcommand(0, 1);
  add_global_flags(program, context);
  program.set_version_flag("--version", "trainctl " + version_text(), "print the version")
      ->group("Global options");
  for (const auto add : kVerbs) add(program, context);
  program.footer(
      "Get started:         trainctl run\n"
      "Help for a command:  trainctl COMMAND --help\n"
      "Help for a key:      trainctl explain optimizer.adam.lr");
}

// CLI11 interprets a lone `++` as the end of a command's arguments and drops it.
void reject_lone_plus(const Context& context) {
  const auto& argv = context.argv;
  if (std::find(argv.begin(), argv.end(), "++") == argv.end()) return;
  throw CLI::ValidationError("'++' has no key: write '++section.key=value'");
}

int usage_failure(const CLI::App& program, const CLI::ParseError& error, Context& context) {
  for (const std::string& word : context.argv) context.json = context.json || word == "--json";
  return report_error(context, Error(ErrorKind::config, usage_error(program, error, context.argv)));
}

// A command whose output cannot be written fails: trainctl show-config x.yaml > /dev/full.
template <class Body>
int run_reporting_errors(const Context& context, const Body& body) {
  try {
    const int exit_code = body();
    finish_output();
    if (exit_code == static_cast<int>(ErrorKind::resource) && !has_output(stderr))
      print_error(context, "a required part is missing or broken: see the output above");
    return exit_code;
  } catch (const std::exception& error) {
    return report_error(context, to_error(error));
  }
}

int print_help_or_version(const CLI::App& program, const CLI::ParseError& request,
                          const Context& context) {
  return run_reporting_errors(context, [&] {
    std::ostringstream text;
    const int exit_code = program.exit(request, text, text);
    put(stdout, text.str());
    return exit_code;
  });
}

int run_action(const Context& context) {
  set_up_log(context);
  try_plugins_apart();
  if (context.json)
    data::report_lost_pages({"", R"({"schema":"trainctl.error/2","exit_code":9,"message":")",
                             "\",\"hint\":\"\",\"errors\":[]}\n"});
  return run_reporting_errors(context, [&] { return context.action(); });
}

void take_token(Context& context) {
  const char* digits = std::getenv(study::kTokenVariable);
  if (digits == nullptr) return;
  context.token_digits = digits;
  ::unsetenv(study::kTokenVariable);
}

int run_program(int argc, char** argv) {
  prepare_standard_streams();
  Context context;
  context.argv.assign(argv, argv + argc);
  take_token(context);
  CLI::App program{"Trains neural networks from a YAML file."};
  context.program = &program;
  describe_program(program, context);
  context.action = [&program] {
    print(help_text(program).substr(0, help_text(program).size() - 1));
    return 0;
  };
  try {
    reject_lone_plus(context);
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return usage_failure(program, error, context);
    return print_help_or_version(program, error, context);
  }
  return run_action(context);
}

}  // namespace
}  // namespace trainctl::app

int main(int argc, char** argv) { return trainctl::app::run_program(argc, argv); }
