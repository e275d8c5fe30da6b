#include "base/machine/machine.hpp"
#include "cli/long_task.hpp"
#include "cli/verb.hpp"
#include "data/core/pipeline.hpp"
#include "data/pack/make_pack.hpp"
#include "data/pack/pack_format.hpp"

namespace trainctl::app {
namespace {

struct PackArguments {
  ConfigArguments config;
  std::string out;
  std::string split = "train";
  std::string mode = "keep";
  std::optional<std::int64_t> size;
  std::optional<int> quality;
  std::optional<int> workers;
};

constexpr std::int64_t kUsualSize = 256;

data::PackOptions options_of(const PackArguments& arguments) {
  using data::PackMode;
  data::PackOptions options;
  for (const PackMode mode :
       {PackMode::keep, PackMode::baseline, PackMode::resize, PackMode::raw}) {
    if (arguments.mode == enum_name(mode)) options.mode = mode;
  }
  const bool resizes = options.mode == PackMode::resize || options.mode == PackMode::raw;
  ENSURE(config, !arguments.size || resizes, "--size requires --mode resize or raw, got --mode {}",
         arguments.mode);
  ENSURE(config, !arguments.quality || options.mode == PackMode::resize,
         "--quality requires --mode resize, got --mode {}", arguments.mode);
  options.size = arguments.size;
  if (options.mode == PackMode::resize) options.size = arguments.size.value_or(kUsualSize);
  options.quality = arguments.quality.value_or(options.quality);
  options.workers = arguments.workers.value_or(usable_cores());
  return options;
}

/// Packs until a signal arrives. The packed part is saved, and the signal then ends the program.
data::PackReport pack_until_stopped(const data::Dataset& dataset, const PackArguments& arguments,
                                    const data::PackOptions& options, Context& context) {
  data::PackReport report;
  run_until_signal(
      [&] {
        CounterLine checks(context, "check the unfinished file");
        CounterLine packs(context, "pack");
        report =
            data::make_pack(dataset, arguments.out, options, {checks.progress(), packs.progress()});
      },
      "stopped: run the same command again to resume\n");
  return report;
}

void print_report(const data::PackReport& report, const PackArguments& arguments,
                  const data::PackOptions& options, const Context& context) {
  if (context.json) {
    print_json({{"schema", "trainctl.data_pack/2"},
                {"file", arguments.out},
                {"recipe", data::pack_recipe(options)},
                {"samples", report.samples},
                {"found", report.found},
                {"damaged", report.damaged},
                {"skipped", skipped_json(report.skipped)},
                {"bytes", report.bytes}});
    return;
  }
  std::string found =
      report.found == 0 ? ""
                        : fmt::format(", {} of them already stored", with_thousands(report.found));
  if (report.damaged > 0)
    found += fmt::format(", {} damaged and stored again", with_thousands(report.damaged));
  print(fmt::format("{}: {} sample{} ({}){}, {}", printable(arguments.out),
                    with_thousands(report.samples), plural(report.samples),
                    data::pack_recipe(options), found, human_bytes(report.bytes)));
  print_skipped(context, report.skipped, "not packed");
}

int pack(const PackArguments& arguments, Context& context) {
  keep_running_without_output(LostOutput::is_tolerated);
  data::PackOptions options = options_of(arguments);
  const spec::Loaded loaded = load_checked(arguments.config, context, study::Purpose::reading);
  const spec::DataSplit split{spec::split_called(loaded.experiment, arguments.split).dataset, {}};
  options.on_error = loaded.experiment.dataset.on_error;
  options.max_skipped = loaded.experiment.dataset.max_skipped.value;
  options.origin = data::record_origin(split.dataset);
  const auto dataset = data::build_dataset(split, data::catalog_in_use());
  const data::PackReport report = pack_until_stopped(*dataset, arguments, options, context);
  print_report(report, arguments, options, context);
  return 0;
}

}  // namespace

void add_data_pack(CLI::App& data, Context& context) {
  const auto [verb, arguments] = add_verb(
      data, context, {"pack", "pack the images of a split into one file", kConfigGroup}, pack);
  add_config_arguments(verb, arguments.config, context, Builtin::photographs);
  add_options(verb, {{"--out", arguments.out, "FILE", "required: pack file to write"}});
  verb.get_option("--out")->required();
  add_split_argument(verb, arguments.split);
  add_options(verb,
              {{"--mode", arguments.mode, "MODE",
                "how to store images: keep, baseline, resize or raw, see below (default: keep)",
                CLI::IsMember({"keep", "baseline", "resize", "raw"}).description("")},
               {"--size", arguments.size, "PIXELS",
                "with resize or raw: shrink the shorter side to PIXELS (default with resize: 256)",
                within(1, 65'535)},
               {"--quality", arguments.quality, "Q", "with resize: JPEG quality (default: 90)",
                within(1, 100)},
               {"--workers", arguments.workers, "N", "number of threads (default: all cores)",
                within(1, 256)}});
  verb.footer(
      "keep      store the files unchanged\n"
      "baseline  convert slow progressive JPEGs to baseline JPEGs with the same pixels\n"
      "resize    store smaller JPEGs\n"
      "raw       store pixels: no decoding, but much larger\n"
      "\n"
      "Train with dataset.train: {type: pack, path: FILE}. If packing was interrupted, run the\n"
      "same command again: it checks the unfinished file and continues. With\n"
      "dataset.on_error=skip, samples that cannot be decoded are skipped.");
}

}  // namespace trainctl::app
