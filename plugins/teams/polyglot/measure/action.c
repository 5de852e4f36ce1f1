// Computes figures of the readings: mean, standard deviation, extremes, and the change per day.
#include <math.h>
#include <strata_action.h>

typedef struct {
  double mean, deviation, slope;
  size_t lowest, highest;
} figures;

static double at(const strata_json *readings, size_t i) {
  return strata_json_number(strata_json_get(strata_json_at(readings, i), "temperature"), 0);
}

// `count` must be at least 2.
static figures measure(const strata_json *readings, size_t count) {
  figures found = { 0 };
  for (size_t i = 0; i < count; i++) {
    double value = at(readings, i);
    found.mean += value / count;
    if (value < at(readings, found.lowest)) found.lowest = i;
    if (value > at(readings, found.highest)) found.highest = i;
  }
  double squares = 0, days = 0, products = 0, middle = (count - 1) / 2.0;
  for (size_t i = 0; i < count; i++) {
    double from_mean = at(readings, i) - found.mean;
    squares += from_mean * from_mean;
    days += (i - middle) * (i - middle);
    products += (i - middle) * from_mean;
  }
  found.deviation = sqrt(squares / (count - 1));
  found.slope = products / days;
  return found;
}

static strata_json *extreme(const strata_json *readings, size_t i) {
  strata_json *found = strata_json_new_object();
  strata_str day = strata_json_text(strata_json_get(strata_json_at(readings, i), "day"), STR("?"));
  strata_json_set(found, "day", strata_json_new_text(day));
  return strata_json_set(found, "temperature", strata_json_new_number(at(readings, i)));
}

static strata_error act(const strata_call *call, strata_output *output) {
  const strata_message *newest = strata_newest(call);
  if (!newest) return strata_fail(STRATA_ERROR, "measuring: there is no message");
  const strata_json *readings = strata_json_get(strata_message_data(newest), "readings");
  size_t count = strata_json_length(readings);
  if (count < 2) return strata_fail(STRATA_ERROR, "measuring: the message has fewer than two `readings`");

  figures found = measure(readings, count);
  output->content = strata_format("%.1f °C on average, %+.2f a day", found.mean, found.slope);
  strata_json *data = strata_json_new_object();
  strata_json_set(data, "mean", strata_json_new_number(found.mean));
  strata_json_set(data, "deviation", strata_json_new_number(found.deviation));
  strata_json_set(data, "slope", strata_json_new_number(found.slope));
  strata_json_set(data, "lowest", extreme(readings, found.lowest));
  output->data = strata_json_set(data, "highest", extreme(readings, found.highest));
  return STRATA_SUCCESS;
}

STRATA_ACTION(act, .name = "measure", .version = "0.1.0", .description = "Computes figures of readings")
