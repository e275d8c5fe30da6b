#include "base/machine/machine.hpp"
#include "cli/verb.hpp"
#include "data/core/pipeline.hpp"
#include "data/inspect/split_stats.hpp"
#include "report/text/table.hpp"

namespace trainctl::app {
namespace {

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

}  // namespace

void add_data_stats(CLI::App& data, Context& context) {
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

}  // namespace trainctl::app
