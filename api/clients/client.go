// tensord from Go, with the standard library alone.
//
//	go run api/clients/client.go [http://host:port]
//
// Keeps a table, looks rows up in JSON and in binary, multiplies, updates, reads an error and cleans up.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

const safetensors = "application/vnd.safetensors"

var server = "http://127.0.0.1:8080"

// object is a request in JSON.
type object map[string]any

// answer has the members that these requests are answered with: of a table, of an op, of an error.
type answer struct {
	DType  string
	Shape  []int
	Output struct{ Data any }

	Code, Detail, Input string
	Position            []int
	Index, Bound        int64
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// ask returns the status and the body of the answer.
func ask(method, path, contentType string, body []byte, accept string) (int, []byte) {
	request, err := http.NewRequest(method, server+path, bytes.NewReader(body))
	check(err)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	check(err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	check(err)
	return response.StatusCode, data
}

// try is a request in JSON; of an answer that is an error Code is set.
func try(path string, body object) (a answer) {
	text, err := json.Marshal(body)
	check(err)
	_, data := ask("POST", path, "application/json", text, "application/json")
	check(json.Unmarshal(data, &a))
	return a
}

// post is try where nothing should go wrong.
func post(path string, body object) answer {
	a := try(path, body)
	if a.Code != "" {
		log.Fatalf("%s: %s", a.Code, a.Detail)
	}
	return a
}

// npy is a file as numpy.save writes it: magic, version, the header's length, the header, the values.
func npy(rows, columns int, values []float32) []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, columns)
	file := bytes.NewBufferString("\x93NUMPY\x01\x00\x76\x00")
	fmt.Fprintf(file, "%-117s\n", header) // 0x76 bytes: the values begin at a multiple of 64
	check(binary.Write(file, binary.LittleEndian, values))
	return file.Bytes()
}

// float32Of reads a tensor out of a safetensors file: the header's length, the header as JSON, the tensors' bytes.
func float32Of(file []byte, name string) []float32 {
	start := 8 + binary.LittleEndian.Uint64(file)
	header := map[string]struct {
		Offsets [2]uint64 `json:"data_offsets"`
	}{}
	check(json.Unmarshal(file[8:start], &header))
	begin, end := header[name].Offsets[0], header[name].Offsets[1]
	values := make([]float32, (end-begin)/4)
	check(binary.Read(bytes.NewReader(file[start+begin:]), binary.LittleEndian, values))
	return values
}

func main() {
	if len(os.Args) > 1 {
		server = os.Args[1]
	}

	// The table is kept under its name from now on.
	const table = "/v1/tensors/go-example"
	file := npy(3, 2, []float32{0.5, 1.5, 2.5, 3.5, 4.5, 5.5})
	status, data := ask("PUT", table, "application/x-npy", file, "application/json")
	if status >= 400 {
		log.Fatalf("%s", data)
	}
	var about answer
	check(json.Unmarshal(data, &about))
	fmt.Println("table:", about.DType, about.Shape)

	// Rows 2 and 0: the table is named, only the indices travel.
	params := object{"ref": "go-example"}
	rows := post("/v1/gather", object{"params": params, "indices": []int{2, 0}})
	fmt.Println("json:", rows.Output.Data)

	// A question in JSON may have its answer in binary.
	question := []byte(`{"params": {"ref": "go-example"}, "indices": [2, 0]}`)
	if status, data = ask("POST", "/v1/gather", "application/json", question, safetensors); status >= 400 {
		log.Fatalf("%s", data)
	}
	fmt.Println("binary:", float32Of(data, "output"))

	// The dot product of every row with [1, 2]. Go writes 1.0 as 1, so the dtype is said.
	query := object{"dtype": "float32", "data": []float32{1, 2}}
	dots := post("/v1/einsum", object{"equation": "ij,j->i", "inputs": []object{params, query}})
	fmt.Println("einsum:", dots.Output.Data)

	// Row 1 is replaced in place. Each index is a list of coordinates; "mode": "add" would add instead.
	post(table+"/scatter", object{"indices": [][]int{{1}}, "updates": [][]float32{{7.5, 8.5}}})
	row := post("/v1/gather", object{"params": params, "indices": 1})
	fmt.Println("scatter:", row.Output.Data)

	// There is no row 7. Every error has a code for programs and a sentence, Detail, for people.
	if e := try("/v1/gather", object{"params": params, "indices": []int{0, 7}}); e.Code != "" {
		fmt.Printf("error: %s: %s%v is %d, the bound %d\n", e.Code, e.Input, e.Position, e.Index, e.Bound)
	}

	if status, _ = ask("DELETE", table, "", nil, ""); status == http.StatusNoContent {
		fmt.Println("deleted")
	}
}
