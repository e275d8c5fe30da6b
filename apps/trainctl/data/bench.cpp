#include "cli/verb.hpp"
#include "study/bench/data_bench.hpp"

namespace trainctl::app {
namespace {

struct DataBenchArguments {
  ConfigArguments config;
  study::DataBenchOptions options;
};

int data_bench(const DataBenchArguments& arguments, Context& context) {
  const spec::Loaded loaded = load_checked(arguments.config, context, study::Purpose::loading);
  study::DataBenchResult result =
      study::bench_loader(loaded.experiment, arguments.options, progress_printer(context));
  result.bench.config = arguments.config.file;
  if (context.json) {
    Json document = report::data_bench_document(result.bench);
    document["skipped"] = skipped_json(result.skipped);
    print_json(document);
  } else {
    writer_for(stdout)(
        report::to_text(report::data_bench_table(result.bench), style_for(context, stdout)) +
        (context.quiet ? "" : report::data_bench_notes(result.bench)));
  }
  print_skipped(context, result.skipped, "replaced by other samples");
  return 0;
}

}  // namespace

void add_data_bench(CLI::App& data, Context& context) {
  const auto [verb, arguments] = add_verb(
      data, context, {"bench", "measure the loader alone, in samples per second", kConfigGroup},
      data_bench);
  add_config_arguments(verb, arguments.config, context, Builtin::photographs);
  add_options(verb,
              {{"--workers", arguments.options.workers, "LIST",
                "loader threads to compare, for example 0,2,auto (default: loader.num_workers)"},
               {"--repeats", arguments.options.repeats, "N",
                "number of measurements of each setting (default: 5)", within(1, 1000)},
               {"--seconds", arguments.options.length.seconds, "S",
                "seconds per measurement (default: 1)", within(0.01, 86400.0)},
               {"--epochs", arguments.options.length.epochs, "E",
                "epochs per measurement, instead of --seconds", within(1, 1'000'000)}});
  verb.get_option("--epochs")->excludes("--seconds");
}

}  // namespace trainctl::app
