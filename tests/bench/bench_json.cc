/* bench_json - compares the speed of decoding and encoding JSON with the standard library and
 * simdjson.
 *
 *     bench_json [rounds]
 *
 * "read" is td_json_decode of a gather request. Baselines: simdjson's on-demand parser, one double
 * for each element, and std::from_chars without syntax checks. "write" is td_json_encode of a
 * reply. Baseline: std::to_chars in a loop. The functions alternate; figures are medians. Buffers
 * are warm, as in the server. */
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <simdjson.h>
#include <string>
#include <time.h>
#include <vector>

extern "C" {
/* bench_json_api.c: wrappers of the C functions with types that are valid in C++. */
struct bench_call;
struct bench_call *bench_call_new(size_t arena_bytes);
void bench_call_free(struct bench_call *call);
size_t bench_decode(struct bench_call *call, const char *op, const char *body, size_t bytes);
size_t bench_decode_file(struct bench_call *call, const char *op, const char *body, size_t bytes);
size_t bench_decode_oip(struct bench_call *call, const char *op, const char *body, size_t bytes,
                        size_t json_bytes);
size_t bench_open(struct bench_call *call, const char *file, size_t bytes);
size_t bench_encode_oip(struct bench_call *call, const char *dtype, void *data, int64_t rows,
                        int64_t columns, const char *request, size_t bytes);
size_t bench_encode(struct bench_call *call, const char *dtype, void *data, int64_t rows,
                    int64_t columns, const char *layout);
}

namespace
{

constexpr size_t padding = 64;

/* CPU time of this thread, which other load on the machine distorts less. */
double now_ns()
{
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values)
{
    std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                     values.end());
    return values[values.size() / 2];
}

/* Runs the functions alternately. Returns their medians in ns. */
std::vector<double> race(int rounds, const std::vector<std::function<void()>> &contestants)
{
    std::vector<std::vector<double>> times(contestants.size());
    for (int round = 0; round <= rounds; round++)
        for (size_t i = 0; i < contestants.size(); i++) {
            double begin = now_ns();
            contestants[i]();
            if (round > 0) /* the first is a warm-up */
                times[i].push_back(now_ns() - begin);
        }
    std::vector<double> medians;
    for (auto &each : times)
        medians.push_back(median(each));
    return medians;
}

template <typename T> std::string text_of(const std::vector<T> &values, size_t columns)
{
    std::string text = "[";
    char digits[64];
    for (size_t i = 0; i < values.size(); i++) {
        if (columns && i % columns == 0)
            text += i ? "],[" : "[";
        else if (i)
            text += ",";
        auto end = std::to_chars(digits, digits + sizeof digits, values[i]);
        text.append(digits, end.ptr);
    }
    return text + (columns ? "]]" : "]");
}

std::string padded(const std::string &text)
{
    std::string copy = text;
    copy.reserve(text.size() + std::max<size_t>(padding, simdjson::SIMDJSON_PADDING));
    return copy;
}

const std::string oip_index =
    "{\"name\":\"indices\",\"datatype\":\"INT32\",\"shape\":[],\"data\":0}";

volatile double sink; /* keeps the compiler from removing the baselines */

template <typename T> void by_from_chars(const std::string &array, std::vector<T> &out)
{
    const char *at = array.data(), *end = at + array.size();
    size_t n = 0;
    while (at < end) {
        if (*at == '[' || *at == ']' || *at == ',') {
            at++;
            continue;
        }
        at = std::from_chars(at, end, out[n++]).ptr;
    }
    sink = static_cast<double>(out[n - 1]);
}

template <typename T>
void reading(int rounds, const char *name, const std::vector<T> &values, size_t columns,
             const char *dtype)
{
    std::string array = text_of(values, columns), body;
    if (dtype)
        body = std::string("{\"params\":{\"dtype\":\"") + dtype + "\",\"shape\":[" +
               std::to_string(values.size()) + "],\"data\":" + array + "},\"indices\":0}";
    else
        body = "{\"params\":" + array + ",\"indices\":0}";
    std::string ours = padded(body), theirs = padded(array);
    bench_call *call = bench_call_new(values.size() * 16 + (1 << 20));
    simdjson::ondemand::parser parser;
    std::vector<T> out(values.size());
    auto times = race(
        rounds,
        { [&] {
             sink = static_cast<double>(bench_decode(call, "gather", ours.data(), ours.size()));
         },
          [&] {
              simdjson::ondemand::document document;
              if (parser.iterate(theirs.data(), theirs.size(), theirs.capacity()).get(document))
                  std::abort();
              size_t n = 0;
              auto element = [&](auto value) {
                  if constexpr (std::is_integral_v<T>)
                      out[n++] = static_cast<T>(value.get_int64().value_unsafe());
                  else
                      out[n++] = static_cast<T>(value.get_double().value_unsafe());
              };
              for (auto outer : document.get_array()) {
                  if (!columns)
                      element(outer);
                  else
                      for (auto inner : outer.get_array())
                          element(inner);
              }
              sink = static_cast<double>(out[n - 1]);
          },
          [&] { by_from_chars(array, out); } });
    double bytes = static_cast<double>(body.size()), n = static_cast<double>(values.size());
    std::printf("read  %-28s %5.2f GB/s  %5.1f ns/element   simdjson %5.1f   from_chars %5.1f\n",
                name, bytes / times[0], times[0] / n, times[1] / n, times[2] / n);
    bench_call_free(call);
}

template <typename T>
void writing(int rounds, const char *name, std::vector<T> &values, int64_t columns,
             const char *dtype)
{
    bench_call *call = bench_call_new(values.size() * 40 + (1 << 20));
    std::vector<char> text(values.size() * 32);
    size_t size = 0;
    int64_t rows = static_cast<int64_t>(values.size()) / columns;
    auto times = race(
        rounds, { [&] { size = bench_encode(call, dtype, values.data(), rows, columns, "nested"); },
                  [&] {
                      char *at = text.data(), *end = at + text.size();
                      for (T value : values) {
                          at = std::to_chars(at, end, value).ptr;
                          *at++ = ',';
                      }
                      sink = at[-1];
                  } });
    double n = static_cast<double>(values.size());
    std::printf("write %-28s %5.2f GB/s  %5.1f ns/element   to_chars %5.1f   ratio %.2f\n", name,
                static_cast<double>(size) / times[0], times[0] / n, times[1] / n,
                times[0] / times[1]);
    bench_call_free(call);
}

/* Compares the same numbers in a request and a reply of /v1 and of the Open Inference Protocol. */
template <typename T>
void protocols(int rounds, const char *name, std::vector<T> &values, const char *dtype,
               const char *datatype)
{
    std::string array = text_of(values, 0), n_text = std::to_string(values.size());
    std::string v1 = padded(std::string("{\"params\":{\"dtype\":\"") + dtype + "\",\"shape\":[" +
                            n_text + "],\"data\":" + array + "},\"indices\":0}");
    std::string v2 =
        padded(std::string("{\"inputs\":[{\"name\":\"params\",\"datatype\":\"") + datatype +
               "\",\"shape\":[" + n_text + "],\"data\":" + array + "}," + oip_index + "]}");
    std::string empty = padded(std::string("{\"inputs\":[{\"name\":\"params\",\"datatype\":\"") +
                               datatype + "\",\"shape\":[0]}," + oip_index + "]}");
    bench_call *call = bench_call_new(values.size() * 40 + (1 << 20));
    int64_t count = static_cast<int64_t>(values.size());
    auto times = race(
        rounds,
        { [&] { sink = static_cast<double>(bench_decode(call, "gather", v1.data(), v1.size())); },
          [&] {
              sink = static_cast<double>(
                  bench_decode_oip(call, "gather", v2.data(), v2.size(), SIZE_MAX));
          },
          [&] { bench_encode(call, dtype, values.data(), count, 1, "flat"); },
          [&] {
              bench_encode_oip(call, dtype, values.data(), count, 1, empty.data(), empty.size());
          } });
    double n = static_cast<double>(values.size());
    std::printf("v2    %-28s read %5.1f ns/element (v1 %5.1f)   write %5.1f (v1 %5.1f)\n", name,
                times[1] / n, times[0] / n, times[3] / n, times[2] / n);
    bench_call_free(call);
}

/* Repeats a short function until it takes long enough to measure. */
double repeated(int rounds, const std::function<size_t()> &once)
{
    constexpr int times = 2000;
    return race(rounds, { [&] {
                    for (int i = 0; i < times; i++)
                        sink = static_cast<double>(once());
                } })[0] /
           times;
}

std::string cpu_model()
{
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.rfind("model name", 0) == 0)
            return line.substr(line.find(':') + 2);
    return "unknown CPU";
}

} // namespace

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 21;
    constexpr size_t n = 1000000;
    std::mt19937_64 random(1);
    std::uniform_real_distribution<float> unit(0, 1);
    std::normal_distribution<float> normal(0, 1);
    std::normal_distribution<double> normal64(0, 1);
    std::vector<float> units(n), normals(n);
    std::vector<double> doubles(n);
    std::vector<int32_t> indices(n), wide(n);
    for (size_t i = 0; i < n; i++) {
        units[i] = unit(random);
        normals[i] = normal(random);
        doubles[i] = normal64(random);
        indices[i] = static_cast<int32_t>(random() % 100000);
        wide[i] = static_cast<int32_t>(random());
    }
    std::printf("%s, one thread, %zu elements, %d rounds\n", cpu_model().c_str(), n, rounds);
    reading(rounds, "float32 [0,1) flat", units, 0, nullptr);
    reading(rounds, "float32 N(0,1) flat", normals, 0, nullptr);
    reading(rounds, "float32 N(0,1) flat, typed", normals, 0, "float32");
    reading(rounds, "float32 N(0,1) [1000,1000]", normals, 1000, nullptr);
    reading(rounds, "float32 N(0,1) [125000,8]", normals, 8, nullptr);
    reading(rounds, "float64 N(0,1), typed", doubles, 0, "float64");
    reading(rounds, "int32 below 100000", indices, 0, nullptr);
    reading(rounds, "int32 all", wide, 0, nullptr);
    writing(rounds, "float32 [0,1)", units, 1000, "float32");
    writing(rounds, "float32 N(0,1)", normals, 1000, "float32");
    writing(rounds, "float32 N(0,1) [125000,8]", normals, 8, "float32");
    writing(rounds, "float64 N(0,1)", doubles, 1000, "float64");
    writing(rounds, "int32 below 100000", indices, 1000, "int32");
    writing(rounds, "int32 all", wide, 1000, "int32");

    protocols(rounds, "float32 N(0,1)", normals, "float32", "FP32");
    protocols(rounds, "float64 N(0,1)", doubles, "float64", "FP64");
    protocols(rounds, "int32 below 100000", indices, "int32", "INT32");

    bench_call *call = bench_call_new(1 << 20);
    std::vector<float> small(units.begin(), units.begin() + 128);
    for (float &value : small) /* four digits, as people type */
        value = std::strtof(std::to_string(value).substr(0, 6).c_str(), nullptr);
    std::string request = "{\"params\":" + text_of(small, 8) + ",\"indices\":[3,0,15,7]}";
    std::string body = padded(request);
    std::printf(
        "read  a request of %zu bytes        %6.0f ns\n", body.size(),
        repeated(rounds, [&] { return bench_decode(call, "gather", body.data(), body.size()); }));
    std::printf("write a reply of 4x8 float32        %6.0f ns\n", repeated(rounds, [&] {
                    return bench_encode(call, "float32", small.data(), 4, 8, "nested");
                }));
    std::string header =
        "{\"params\":{\"dtype\":\"F32\",\"shape\":[16,8],\"data_offsets\":[0,512]},"
        "\"indices\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[512,528]}}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    uint64_t length = header.size();
    std::string file(reinterpret_cast<const char *>(&length), 8);
    file += header + std::string(528, '\0');
    std::printf("read  a safetensors header of %zu B %6.0f ns\n", header.size(),
                repeated(rounds, [&] { return bench_open(call, file.data(), file.size()); }));
    std::printf("read  that request                  %6.0f ns\n", repeated(rounds, [&] {
                    return bench_decode_file(call, "gather", file.data(), file.size());
                }));
    /* In the same format as tritonclient. */
    std::string oip =
        "{\"inputs\":[{\"name\":\"params\",\"shape\":[16,8],\"datatype\":\"FP32\",\"parameters\":"
        "{\"binary_data_size\":512}},{\"name\":\"indices\",\"shape\":[4],\"datatype\":\"INT32\","
        "\"parameters\":{\"binary_data_size\":16}}],\"parameters\":{\"binary_data_output\":true}}";
    size_t json_bytes = oip.size();
    oip += std::string(528, '\0');
    std::printf("read  the same as OIP, %zu B of JSON %6.0f ns\n", json_bytes,
                repeated(rounds, [&] {
                    return bench_decode_oip(call, "gather", oip.data(), oip.size(), json_bytes);
                }));
    bench_call_free(call);
    return 0;
}
