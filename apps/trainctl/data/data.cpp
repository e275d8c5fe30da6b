#include "base/hash.hpp"
#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "cli/shared_options.hpp"
#include "cli/skipped_samples.hpp"
#include "data/cache/image_cache.hpp"
#include "data/core/pipeline.hpp"
#include "data/loader/measurements.hpp"
#include "log/log.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>

namespace trainctl::app {
namespace {

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
  return {{"schema", "trainctl.data_hash/1"},
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
  print_warnings(context);
  data::LoaderOptions options =
      data::loader_options(loaded.experiment, data::Role::train, {0, arguments.world_size});
  const std::int64_t epochs = arguments.epochs.value_or(
      loaded.experiment.trainer.epoch_limit().value_or(spec::Trainer::kDefaultEpochs));
  data::CacheBudget cache(loaded.experiment.dataset.cache, 1);
  const data::Pipeline pipeline =
      data::with_cache(data::build_pipeline(loaded.experiment.dataset.train), cache);
  spec::Loader requested = loaded.experiment.loader;
  requested.num_workers = arguments.workers.value_or(requested.num_workers);
  requested.prefetch_factor = arguments.prefetch_factor.value_or(requested.prefetch_factor);
  const data::LoadingChoice choice = choose_for_reading(requested, pipeline, options);
  log::get().debug("{} loader workers, prefetch factor {} ({})", choice.num_workers,
                   choice.prefetch_factor, choice.why);
  options.num_workers = choice.num_workers;
  options.prefetch_factor = choice.prefetch_factor;
  const data::EpochDigests digests = data::digest_epochs(pipeline, options, epochs);
  if (context.json) {
    print_json(document(digests, options, choice));
    return 0;
  }
  for (std::size_t epoch = 0; epoch < digests.epochs.size(); ++epoch) {
    print(fmt::format("epoch {:<4} {}", epoch + 1, to_hex(digests.epochs[epoch])));
  }
  print(fmt::format("{:<10} {}", "all", to_hex(digests.digest)));
  tell_skipped(context, digests.skipped, "replaced by others");
  return 0;
}

void add_hash(CLI::App& data, Context& context) {
  const auto arguments = std::make_shared<HashArguments>();
  CLI::App& verb = add_verb(data, context, {"hash", "digest of the training batches", kConfigGroup},
                            [arguments, &context] { return hash(*arguments, context); });
  add_config_arguments(verb, arguments->config, context, Builtin::photographs);
  add_auto_option(verb, "--workers", arguments->workers,
                  "loader threads instead of loader.num_workers", 0, 256);
  add_auto_option(verb, "--prefetch-factor", arguments->prefetch_factor,
                  "batches ahead instead of loader.prefetch_factor", 1, 64);
  verb.add_option("--epochs", arguments->epochs, "epochs to load instead of trainer.max_epochs")
      ->check(whole_number(1, 1'000'000))
      ->type_name("E");
  verb.add_option("--world-size", arguments->world_size,
                  "load the shares of so many ranks, one after the other")
      ->check(whole_number(1, 4096))
      ->type_name("R");
  verb.footer(
      "The digest is the same for any number of workers, any prefetch factor and any number of "
      "ranks whose batches are\n"
      "as large together: loader.batch_size is that of one rank. Without batch_transforms, "
      "loader.drop_last and\n"
      "trainer.limit_train_batches it does not depend on the batches at all.");
}

}  // namespace

void add_data(CLI::App& program, Context& context) {
  CLI::App& verb =
      *program.add_subcommand("data", "look at the batches of an experiment")->group(kConfigGroup);
  add_global_flags(verb, context);
  verb.require_subcommand(1);
  add_data_bench(verb, context);
  add_hash(verb, context);
  add_data_pack(verb, context);
  add_data_show(verb, context);
  add_data_stats(verb, context);
}

}  // namespace trainctl::app
