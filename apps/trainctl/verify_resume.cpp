#include "study/resume/verify_resume.hpp"

#include "cli/verb.hpp"
#include "launch/supervise/verdict.hpp"

namespace trainctl::app {
namespace {

struct VerifyResumeFlags {
  ConfigArguments config;
  int kills = 5;
  std::uint64_t seed = 0;
};

/// Runs the check. The files of a failed check are kept, unless a signal was the reason.
report::ResumeCheck checked(const study::RunRequest& request,
                            const study::VerifyResumeOptions& options,
                            study::ScratchFolder& scratch) {
  try {
    report::ResumeCheck check = study::verify_resume(request, options, steady_clock());
    if (!check.folder.empty()) scratch.keep();
    return check;
  } catch (const Error& error) {
    if (launch::is_stop_code(error.exit_code()) || error.kind() == ErrorKind::config) throw;
    scratch.keep();
    throw Error(error.kind(), with_reference(error.what(), printable(scratch.path().string())));
  }
}

int verify(const VerifyResumeFlags& flags, Context& context) {
  keep_running_without_output(LostOutput::is_error);
  const study::RunRequest request = study::make_request(
      invocation_of(flags.config, context), study::comparable_run_overrides(), context.diagnostics);
  print_warnings(context);
  study::ScratchFolder scratch(study::temporary_folder());
  study::VerifyResumeOptions options{
      .kills = flags.kills, .seed = flags.seed, .scratch = scratch.path(), .print_line = {}};
  options.print_line = [&context](const std::string& line) {
    if (progress_for(context) != report::ProgressMode::none) writer_for(stderr)(line + "\n");
  };
  const report::ResumeCheck check = checked(request, options, scratch);
  if (context.json) {
    Json document = report::verify_resume_json(check);
    document["config"] = flags.config.file;
    print_json(document);
  } else {
    writer_for(stdout)(report::verify_resume_text(check, style_for(context, stdout)));
  }
  return report::exit_code_of(check);
}

}  // namespace

void add_verify_resume(CLI::App& program, Context& context) {
  const auto [verb, flags] =
      add_verb(program, context,
               {"verify-resume", "kill and resume runs, and check that results stay bit-identical",
                kTrainGroup, WorkingDirectory::existing},
               verify);
  add_config_arguments(verb, flags.config, context);
  add_options(verb, {{"--kills", flags.kills, "N",
                      "number of runs to kill, each at a different step (default: 5)",
                      whole_number(1, 10'000)},
                     {"--seed", flags.seed, "S", "seed for choosing the steps (default: 0)"}});
  verb.footer(
      "Each run trains in a fresh process and a temporary folder, which is kept if runs\n"
      "differ. Compares the weights and optimizer state of the last checkpoint, and the loss\n"
      "of every step.\n"
      "Exit codes: 0 all runs are identical; 3 a run differs or did not finish; 10 no run could\n"
      "be resumed.");
}

}  // namespace trainctl::app
