#include "base/hash.hpp"
#include "base/machine/machine.hpp"
#include "cli/verb.hpp"
#include "data/cache/image_cache.hpp"
#include "data/core/pipeline.hpp"
#include "data/image/codec/png.hpp"
#include "data/inspect/contact_sheet.hpp"
#include "data/inspect/split_stats.hpp"
#include "data/loader/batch_assembler.hpp"
#include "data/loader/loader.hpp"
#include "log/log.hpp"
#include "report/text/table.hpp"
#include "study/bench/data_bench.hpp"

#include <cstring>

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

struct ShowArguments {
  ConfigArguments config;
  std::string out;
  std::int64_t samples = 16;
  std::int64_t epoch = 1;
  std::string split = "train";
};

std::optional<std::int64_t> label_of(const data::Batch& batch, const data::Layout& layout,
                                     std::size_t row) {
  for (std::size_t field = 0; field < layout.size(); ++field) {
    if (layout[field] != data::Field{"label", data::Dtype::i64, {}}) continue;
    std::int64_t label = 0;
    std::memcpy(&label, batch.fields[field].data() + row * sizeof label, sizeof label);
    return label;
  }
  return std::nullopt;
}

struct Shown {
  std::vector<data::SheetImage> images;
  std::int64_t channels = 0;  // of an image, without its mask
  std::vector<std::optional<std::int64_t>> labels;
  std::vector<std::string> class_names;  // empty if the classes only have numbers
  std::vector<data::SkippedSample> skipped;
};

std::string caption_of(const std::optional<std::int64_t>& label,
                       const std::vector<std::string>& names) {
  if (!label || *label < 0) return "";
  const auto number = static_cast<std::size_t>(*label);
  return number < names.size() ? names[number] : std::to_string(*label);
}

std::size_t image_of(const data::Layout& layout) {
  const std::size_t image = data::find_field(layout, "image");
  ENSURE(config, image < layout.size(), "the samples have no image to show");
  return image;
}

// Returns the channels of the image, without the mask that is stored after them.
std::int64_t channels_of(const data::Layout& layout) {
  return data::without_mask(layout, image_of(layout)).shape[2];
}

// Checks the size of the sheet before anything is loaded.
void check_sheet(const data::Pipeline& pipeline, std::int64_t samples) {
  const data::Layout layout = data::transformed(pipeline.dataset->layout(), pipeline.transforms);
  const data::ImageShape shape = data::image_shape(layout[image_of(layout)]);
  const std::int64_t channels = channels_of(layout);
  ENSURE(config, channels == 1 || channels == 3,
         "the images have {} channels; images of 1 (gray) or 3 (RGB) can be shown", channels);
  (void)data::sheet_shape(std::min(samples, pipeline.dataset->size()), shape);
}

void take(const data::Batch& batch, const data::Layout& layout, Shown& shown) {
  const std::size_t image = image_of(layout);
  const data::ImageShape shape = data::image_shape(layout[image]);
  shown.channels = channels_of(layout);
  for (std::size_t row = 0; row < static_cast<std::size_t>(batch.valid); ++row) {
    const auto* pixels =
        reinterpret_cast<const std::uint8_t*>(batch.fields[image].data()) + row * shape.bytes();
    shown.labels.push_back(label_of(batch, layout, row));
    shown.images.push_back(
        {data::ImageView(pixels, shape), caption_of(shown.labels.back(), shown.class_names)});
  }
}

// Uses the samples and random numbers of a run: the first ones of the epoch.
data::LoaderOptions options_for(const ShowArguments& arguments,
                                const spec::Experiment& experiment) {
  data::LoaderOptions options = data::loader_options(
      experiment, arguments.split == "train" ? data::Role::train : data::Role::evaluate, {});
  options.batch_size = arguments.samples;
  options.num_workers = 0;
  options.last_batch = data::LastBatch::keep;
  options.limit_batches = 1;
  return options;
}

Json document(const ShowArguments& arguments, const Shown& shown) {
  Json labels = Json::array();
  for (const auto& label : shown.labels) labels.push_back(label ? Json(*label) : Json(nullptr));
  const data::ImageShape& shape = shown.images.front().image.shape;
  return {{"schema", "trainctl.data_show/2"},
          {"file", arguments.out},
          {"split", arguments.split},
          {"epoch", arguments.epoch},
          {"image", {shape.height, shape.width, shown.channels}},
          {"labels", labels},
          {"class_names", shown.class_names},
          {"skipped", skipped_json(shown.skipped)}};
}

int show(const ShowArguments& arguments, Context& context) {
  const spec::Loaded loaded = load_checked(arguments.config, context, study::Purpose::loading);
  const spec::DataSplit& split = spec::split_called(loaded.experiment, arguments.split);
  data::Pipeline pipeline = data::build_pipeline(split);
  check_sheet(pipeline, arguments.samples);
  Shown shown{.class_names = pipeline.dataset->class_names()};
  data::CacheBudget cache(loaded.experiment.dataset.cache, 1);
  data::Loader loader(data::with_cache(std::move(pipeline), cache, {}, data::CacheFill::on_use),
                      options_for(arguments, loaded.experiment));
  loader.start_epoch(arguments.epoch - 1);
  take(*loader.next(), loader.layout(), shown);
  shown.skipped = loader.skipped();
  data::write_png(arguments.out, data::contact_sheet(shown.images).view());
  if (context.json) {
    print_json(document(arguments, shown));
  } else if (!context.quiet) {
    const std::size_t count = shown.images.size();
    print(fmt::format("{}: {} of epoch {}", printable(arguments.out),
                      count == 1 ? "1 sample" : fmt::format("{} samples", count), arguments.epoch));
  }
  print_skipped(context, shown.skipped, "replaced by other samples");
  return 0;
}

void add_show(CLI::App& data, Context& context) {
  const auto [verb, arguments] =
      add_verb(data, context,
               {"show", "write a PNG image of samples after their transforms", kConfigGroup}, show);
  add_config_arguments(verb, arguments.config, context, Builtin::photographs);
  add_options(
      verb, {{"--out", arguments.out, "FILE", "required: PNG file to write"},
             {"--samples", arguments.samples, "N",
              "number of samples, from the start of the epoch (default: 16)", within(1, 1024)},
             {"--epoch", arguments.epoch, "E",
              "epoch that sets the order and random numbers (default: 1)", within(1, 1'000'000)}});
  verb.get_option("--out")->required();
  add_split_argument(verb, arguments.split);
  verb.footer(
      "Images are shown before 'normalize', with their class below or their mask next to them.");
}

struct StatsArguments {
  ConfigArguments config;
  std::string split = "train";
  std::optional<int> workers;
};

constexpr std::size_t kMostClasses = 10;
constexpr std::size_t kMostColumns = 20;

using Size =
    std::pair<std::pair<std::int64_t, std::int64_t>, std::int64_t>;  // (height, width), samples

std::vector<Size> most_frequent_first(const data::SplitStats& stats) {
  std::vector<Size> sizes(stats.sizes.begin(), stats.sizes.end());
  std::ranges::stable_sort(sizes, [](const Size& a, const Size& b) { return a.second > b.second; });
  return sizes;
}

std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(fmt::format("{:.4f}", value));
  return "[" + join(texts, ", ") + "]";
}

std::string share(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.2f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

/// Returns the table, with a note if rows are left out.
std::string text_of(const report::Table& table, std::size_t more, const report::Style& style) {
  return "\n" + report::to_text(table, style) +
         (more > 0 ? fmt::format("and {} more\n", more) : "");
}

std::string class_text(const data::SplitStats& stats, const std::vector<std::string>& names,
                       const report::Style& style) {
  const bool named = !names.empty();
  report::Table table(
      {{"class", named ? report::Align::left : report::Align::right}, {"samples"}, {"share"}});
  const std::size_t shown = std::min(kMostClasses, stats.per_class.size());
  for (std::size_t i = 0; i < shown; ++i) {
    table.add({named ? printable(names[i]) : fmt::format("{}", i),
               with_thousands(stats.per_class[i]), share(stats.per_class[i], stats.samples)});
  }
  return text_of(table, stats.per_class.size() - shown, style);
}

std::string column_text(const char* what, const std::vector<data::ColumnStats>& columns,
                        const report::Style& style) {
  report::Table table(
      {{what, report::Align::left}, {"mean"}, {"std"}, {"min"}, {"max"}, {"missing"}});
  const std::size_t shown = std::min(kMostColumns, columns.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const data::ColumnStats& column = columns[i];
    std::vector<std::string> cells(4, column.categorical ? "(names)" : "-");
    if (column.count > 0)
      cells = {report::metric_text(column.mean), report::metric_text(column.deviation()),
               report::metric_text(column.least), report::metric_text(column.most)};
    table.add({printable(column.name), cells[0], cells[1], cells[2], cells[3],
               with_thousands(column.missing)});
  }
  return text_of(table, columns.size() - shown, style);
}

report::Table size_table(const data::SplitStats& stats) {
  constexpr std::size_t kMost = 10;
  report::Table table({{"height x width", report::Align::left}, {"samples"}, {"share"}});
  const std::vector<Size> sizes = most_frequent_first(stats);
  std::int64_t others = stats.samples;
  for (std::size_t i = 0; i < std::min(kMost, sizes.size()); ++i) {
    const auto& [size, count] = sizes[i];
    table.add({fmt::format("{} x {}", size.first, size.second), with_thousands(count),
               share(count, stats.samples)});
    others -= count;
  }
  if (others > 0) {
    table.add({fmt::format("{} other sizes", sizes.size() - kMost), with_thousands(others),
               share(others, stats.samples)});
  }
  return table;
}

std::string text_of(const data::SplitStats& stats, const std::vector<std::string>& class_names,
                    const report::Style& style) {
  std::string text =
      fmt::format("{} sample{}\n", with_thousands(stats.samples), plural(stats.samples));
  if (!stats.mean.empty()) {
    text += fmt::format("- {{type: normalize, mean: {}, std: {}}}\n", numbers(stats.mean),
                        numbers(stats.std));
    text += "\n" + report::to_text(size_table(stats), style);
  }
  if (!stats.features.empty()) text += column_text("feature", stats.features, style);
  if (!stats.targets.empty()) text += column_text("target", stats.targets, style);
  if (!stats.per_class.empty()) text += class_text(stats, class_names, style);
  return text;
}

Json columns_json(const std::vector<data::ColumnStats>& columns) {
  Json list = Json::array();
  for (const data::ColumnStats& column : columns) {
    const bool numbers = column.count > 0;
    const auto figure = [&](double value) { return numbers ? Json(value) : Json(nullptr); };
    list.push_back({{"name", column.name},
                    {"mean", figure(column.mean)},
                    {"std", figure(column.deviation())},
                    {"min", figure(column.least)},
                    {"max", figure(column.most)},
                    {"missing", column.missing}});
  }
  return list;
}

Json document(const StatsArguments& arguments, const data::SplitStats& stats,
              const std::vector<std::string>& class_names) {
  Json sizes = Json::array();
  for (const auto& [size, count] : most_frequent_first(stats))
    sizes.push_back({{"height", size.first}, {"width", size.second}, {"samples", count}});
  return {{"schema", "trainctl.data_stats/2"},
          {"config", arguments.config.file},
          {"split", arguments.split},
          {"samples", stats.samples},
          {"mean", stats.mean},
          {"std", stats.std},
          {"classes", stats.per_class},
          {"class_names", class_names},
          {"features", columns_json(stats.features)},
          {"targets", columns_json(stats.targets)},
          {"skipped", skipped_json(stats.skipped)},
          {"sizes", sizes}};
}

// Prints a line every second on a terminal and every ten seconds otherwise.
data::StatsProgress progress_of(std::int64_t samples, const Context& context) {
  const report::ProgressMode mode = progress_for(context);
  if (mode == report::ProgressMode::none) return [](std::int64_t) {};
  const double every = mode == report::ProgressMode::tty ? 1 : 10;
  return [=, next = steady_clock().now() + every](std::int64_t done) mutable {
    if (steady_clock().now() < next) return;
    next += every;
    writer_for(stderr)(
        fmt::format("{} of {} samples\n", with_thousands(done), with_thousands(samples)));
  };
}

int stats(const StatsArguments& arguments, Context& context) {
  const spec::Loaded loaded = load_checked(arguments.config, context, study::Purpose::reading);
  spec::DataSplit split = spec::split_called(loaded.experiment, arguments.split);
  split.transforms.clear();
  const auto dataset = data::build_dataset(split, data::catalog_in_use());
  const spec::Dataset& settings = loaded.experiment.dataset;
  data::SplitStats stats = data::split_stats(
      *dataset,
      {arguments.workers.value_or(usable_cores()), settings.on_error, settings.max_skipped.value},
      progress_of(dataset->size(), context));
  // For a table the stored columns are described, before missing values are filled in and values
  // are standardized. The columns of one part of a divided table are not stored separately.
  const auto columns = data::catalog_in_use().columns;
  const auto stored = columns.find(split.dataset.type);
  if (stored != columns.end() && !split.part) stats.features = stored->second(split.dataset);
  const std::vector<std::string> class_names = dataset->class_names();
  if (context.json) {
    print_json(document(arguments, stats, class_names));
  } else {
    writer_for(stdout)(text_of(stats, class_names, style_for(context, stdout)));
  }
  print_skipped(context, stats.skipped, "not counted");
  return 0;
}

void add_stats(CLI::App& data, Context& context) {
  const auto [verb, arguments] = add_verb(
      data, context,
      {"stats", "print mean, standard deviation, classes and sizes of a split", kConfigGroup},
      stats);
  add_config_arguments(verb, arguments.config, context, Builtin::photographs);
  add_split_argument(verb, arguments.split);
  add_options(verb, {{"--workers", arguments.workers, "N", "number of threads (default: all cores)",
                      within(0, 256)}});
  verb.footer(
      "Images: mean and standard deviation of all stored pixels divided by 255, before any\n"
      "transform. Copy the printed line to the end of 'transforms'.\n"
      "Tables: statistics of each column as stored, before missing values are filled in or\n"
      "values are standardized.");
}

}  // namespace

void add_data(CLI::App& program, Context& context) {
  CLI::App& verb =
      add_verb_group(program, context,
                     {"data", "inspect, measure, pack and tokenize the input data", kConfigGroup});
  add_data_bench(verb, context);
  add_hash(verb, context);
  add_data_pack(verb, context);
  add_show(verb, context);
  add_stats(verb, context);
  add_data_tokenize(verb, context);
}

}  // namespace trainctl::app
