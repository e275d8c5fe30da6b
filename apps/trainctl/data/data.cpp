#include "base/hash.hpp"
#include "cli/verb.hpp"
#include "log/log.hpp"
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

struct HashArguments {
  ConfigArguments config;
  AutoOption workers;
  AutoOption prefetch_factor;
  std::optional<std::int64_t> epochs;
  int world_size = 1;
};

Json document(const data::EpochDigests& digests, const data::LoaderOptions& options,
              const data::LoadingChoice& choice) {
  Json epochs = Json::array();
  for (const std::uint64_t epoch : digests.epochs) epochs.push_back(to_hex(epoch));
  return {{"schema", "trainctl.data_hash/2"},
          {"digest", to_hex(digests.digest)},
          {"epochs", epochs},
          {"workers", options.num_workers},
          {"prefetch_factor", options.prefetch_factor},
          {"workers_why", choice.why},
          {"world_size", options.shard.world_size},
          {"skipped", skipped_json(digests.skipped)}};
}

int hash(const HashArguments& arguments, Context& context) {
  const spec::Loaded loaded = load_checked(arguments.config, context, study::Purpose::loading);
  data::LoaderOptions options =
      data::loader_options(loaded.experiment, data::Role::train, {0, arguments.world_size});
  const std::int64_t epochs = arguments.epochs.value_or(
      loaded.experiment.trainer.epoch_limit().value_or(spec::Trainer::kDefaultEpochs));
  const data::Pipeline pipeline = study::open_train_pipeline(loaded.experiment);
  spec::Loader requested = loaded.experiment.loader;
  requested.num_workers = arguments.workers.value_or(requested.num_workers);
  requested.prefetch_factor = arguments.prefetch_factor.value_or(requested.prefetch_factor);
  const data::LoadingChoice choice = study::choose_for_reading(requested, pipeline, options);
  log::get().debug("{} loader workers with prefetch factor {} ({})", choice.num_workers,
                   choice.prefetch_factor, choice.why);
  options.num_workers = choice.num_workers;
  options.prefetch_factor = choice.prefetch_factor;
  const data::EpochDigests digests = data::digest_epochs(pipeline, options, epochs);
  if (context.json) return print_json(document(digests, options, choice));
  for (std::size_t epoch = 0; epoch < digests.epochs.size(); ++epoch) {
    print(fmt::format("epoch {:<4} {}", epoch + 1, to_hex(digests.epochs[epoch])));
  }
  print(fmt::format("{:<10} {}", "all", to_hex(digests.digest)));
  print_skipped(context, digests.skipped, "replaced by other samples");
  return 0;
}

void add_hash(CLI::App& data, Context& context) {
  const auto [verb, arguments] =
      add_verb(data, context, {"hash", "print a hash of the training batches", kConfigGroup}, hash);
  add_config_arguments(verb, arguments.config, context, Builtin::photographs);
  add_auto_option(verb, "--workers", arguments.workers,
                  "number of loader threads (default: loader.num_workers)", 0, 256);
  add_auto_option(verb, "--prefetch-factor", arguments.prefetch_factor,
                  "batches to prefetch (default: loader.prefetch_factor)", 1, 64);
  add_options(verb,
              {{"--epochs", arguments.epochs, "E", "epochs to load (default: trainer.max_epochs)",
                whole_number(1, 1'000'000)},
               {"--world-size", arguments.world_size, "R",
                "load the batches of R ranks, one rank after another", whole_number(1, 4096)}});
  verb.footer(
      "The hash covers the samples in their order: workers, prefetch factor, batch size and\n"
      "number of ranks do not change it. If batch_transforms, loader.drop_last or\n"
      "trainer.limit_train_batches is set, it depends on the global batch size\n"
      "(loader.batch_size times the number of ranks).");
}

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

}  // namespace

void add_data(CLI::App& program, Context& context) {
  CLI::App& verb = add_verb_group(
      program, context, {"data", "inspect, measure and pack the input data", kConfigGroup});
  add_data_bench(verb, context);
  add_hash(verb, context);
  add_data_pack(verb, context);
  add_data_show(verb, context);
  add_data_stats(verb, context);
}

}  // namespace trainctl::app
