#!/usr/bin/env bash
# broker.sh jars | start | stop | kill | wipe | status | run | ready
#   jars   collect the jars with Maven (needs a Maven repository)   start  format once, start, wait until ready
#   stop   clean shutdown      kill  SIGKILL (crash test; start again keeps the data)      wipe  stop and delete the data
#   run    start in the foreground    ready  have the jars and the classes of a broker, from which others start, and stop it
# Environment: KAFKA_VERSION, PORT, CONTROLLER_PORT, WORK (default: ./work beside this script), LIBS, JAVA, HEAP, EXTRA (a file of more properties)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
WORK="${WORK:-$here/work}"; PORT="${PORT:-9092}"; CONTROLLER_PORT="${CONTROLLER_PORT:-$((PORT + 1))}"
JAVA="${JAVA:-java}"; HEAP="${HEAP:--Xms256m -Xmx512m}"
CLUSTER_ID="${CLUSTER_ID:-MkU3OEVBNTcwNTJENDM2Qg}"   # any 16 bytes, URL-safe base64 without padding
LIBS="${LIBS:-$WORK/libs}"; CLASSES="$LIBS.jsa"; DATA="$WORK/data-$PORT"; PROPS="$WORK/server-$PORT.properties"; LOG="$WORK/broker-$PORT.log"; PIDF="$WORK/broker-$PORT.pid"
light=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1)
if [ -f "$CLASSES" ]; then light+=("-XX:SharedArchiveFile=$CLASSES"); fi  # Java passes over what another Java has made
log4j=(-Dlog4j2.configurationFile="$here/log4j2.properties")

jars() {
  mkdir -p "$WORK"
  for v in ${KAFKA_VERSION:-4.3.1 4.2.1 4.1.1}; do
    rm -rf "$LIBS.new"
    if mvn -q -B -ntp -f "$here/pom.xml" "-Dkafka.version=$v" dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$LIBS.new"; then
      rm -rf "$LIBS" "$CLASSES"; mv "$LIBS.new" "$LIBS"  # whole or not at all
      echo "Kafka $v: $(ls "$LIBS" | wc -l) jars in $LIBS"; return 0
    fi
    echo "Kafka $v could not be collected" >&2
  done
  return 1
}
# Keep the classes of a broker that runs, as they are in memory: the next ones start with half the work.
keep_classes() {
  ( flock -n 9 || return 0; [ ! -f "$CLASSES" ] || return 0
    if jcmd "$(cat "$PIDF")" VM.cds dynamic_dump "$CLASSES.$$" && [ -f "$CLASSES.$$" ]; then mv "$CLASSES.$$" "$CLASSES"; fi
  ) > /dev/null 2>&1 9> "$CLASSES.lock" || true
}
alive() { [ -f "$PIDF" ] && kill -0 "$(cat "$PIDF")" 2>/dev/null; }
prepare() {
  mkdir -p "$(dirname "$LIBS")"
  ( flock 9; [ -d "$LIBS" ] || jars ) 9> "$LIBS.lock"   # two test processes may want them at the same time
  mkdir -p "$DATA"
  sed -e "s#@PORT@#$PORT#g" -e "s#@CONTROLLER_PORT@#$CONTROLLER_PORT#g" -e "s#@DATA@#$DATA#g" "$here/server.properties.in" > "$PROPS"
  if [ -n "${EXTRA:-}" ]; then cat "$EXTRA" >> "$PROPS"; fi   # what is said later wins
  [ -f "$DATA/meta.properties" ] || \
    "$JAVA" "${light[@]}" "${log4j[@]}" -cp "$LIBS/*" kafka.tools.StorageTool format --ignore-formatted -t "$CLUSTER_ID" -c "$PROPS"
}
start() {
  if alive; then echo "already running, pid $(cat "$PIDF")"; return 0; fi
  prepare
  # shellcheck disable=SC2086
  touch "$LOG"; from=$(wc -l < "$LOG"); ready=0
  if [ ! -f "$CLASSES" ] && command -v jcmd > /dev/null; then light+=(-XX:+RecordDynamicDumpInfo); fi
  nohup "$JAVA" $HEAP "${light[@]}" "${log4j[@]}" -cp "$LIBS/*" kafka.Kafka "$PROPS" >> "$LOG" 2>&1 &
  echo $! > "$PIDF"
  for _ in $(seq 1 120); do
    if ! alive; then echo "broker died:" >&2; tail -30 "$LOG" >&2; return 1; fi
    # grep on a variable: with pipefail, "tail | grep -q" fails when grep ends the pipe early
    new="$(tail -n "+$((from + 1))" "$LOG")"
    case "$new" in *"Kafka Server started"*) keep_classes; echo "127.0.0.1:$PORT"; return 0;; esac
    # fallback if the log line ever changes: the port has been open for 5 s
    if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then ready=$((ready + 1)); fi
    if [ "$ready" -ge 10 ]; then echo "127.0.0.1:$PORT"; return 0; fi
    sleep 0.5
  done
  echo "not ready after 60 s" >&2; tail -30 "$LOG" >&2; return 1
}
halt() { alive || { echo "not running"; rm -f "$PIDF"; return 0; }; kill "-$1" "$(cat "$PIDF")"; for _ in $(seq 1 300); do alive || break; sleep 0.1; done; if alive; then kill -KILL "$(cat "$PIDF")"; fi; rm -f "$PIDF"; }
case "${1:-start}" in
  jars) jars;; start) start;; stop) halt TERM;; kill) halt KILL;;
  wipe) halt TERM; rm -rf "$DATA";;
  status) if alive; then echo "running, pid $(cat "$PIDF"), 127.0.0.1:$PORT"; else echo "not running"; exit 3; fi;;
  ready) if [ ! -f "$CLASSES" ]; then start; halt TERM; fi;;
  run) prepare; exec "$JAVA" $HEAP "${log4j[@]}" -cp "$LIBS/*" kafka.Kafka "$PROPS";;
  *) sed -n '2,6p' "$0"; exit 2;;
esac
