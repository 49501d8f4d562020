// tensord from Go, with the standard library alone.
//
//	go run api/clients/client.go [http://host:port]
//
// Stores a table, looks up rows in JSON and in binary, multiplies, updates, reads an error and deletes the table.
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

// object is a JSON object of a request.
type object map[string]any

// reply has the members of the replies used here: of a table, of an op, of an error.
type reply struct {
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

// sendRequest sends a request and returns the status and the body of the reply.
func sendRequest(method, path, contentType string, body []byte, accept string) (int, []byte) {
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

// tryPost sends a request in JSON. Code is set if the reply is an error.
func tryPost(path string, body object) (a reply) {
	text, err := json.Marshal(body)
	check(err)
	_, data := sendRequest("POST", path, "application/json", text, "application/json")
	check(json.Unmarshal(data, &a))
	return a
}

// post is tryPost for requests that must succeed.
func post(path string, body object) reply {
	a := tryPost(path, body)
	if a.Code != "" {
		log.Fatalf("%s: %s", a.Code, a.Detail)
	}
	return a
}

// npy returns a file as written by numpy.save: magic, version, the length of the header, the header, the values.
func npy(rows, columns int, values []float32) []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, columns)
	file := bytes.NewBufferString("\x93NUMPY\x01\x00\x76\x00")
	fmt.Fprintf(file, "%-117s\n", header) // 0x76 bytes: the values begin at a multiple of 64
	check(binary.Write(file, binary.LittleEndian, values))
	return file.Bytes()
}

// float32Of reads a tensor of a safetensors file: the length of the header, the header as JSON, the tensors' bytes.
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

	// The table is stored under its name.
	const table = "/v1/tensors/go-example"
	file := npy(3, 2, []float32{0.5, 1.5, 2.5, 3.5, 4.5, 5.5})
	status, data := sendRequest("PUT", table, "application/x-npy", file, "application/json")
	if status >= 400 {
		log.Fatalf("%s", data)
	}
	var about reply
	check(json.Unmarshal(data, &about))
	fmt.Println("table:", about.DType, about.Shape)

	// Rows 2 and 0: the request refers to the table and contains only the indices.
	params := object{"ref": "go-example"}
	rows := post("/v1/gather", object{"params": params, "indices": []int{2, 0}})
	fmt.Println("json:", rows.Output.Data)

	// A request in JSON may have a binary reply.
	lookup := []byte(`{"params": {"ref": "go-example"}, "indices": [2, 0]}`)
	if status, data = sendRequest("POST", "/v1/gather", "application/json", lookup, safetensors); status >= 400 {
		log.Fatalf("%s", data)
	}
	fmt.Println("binary:", float32Of(data, "output"))

	// The dot product of every row with [1, 2]. Go writes 1.0 as 1, so the dtype is given.
	query := object{"dtype": "float32", "data": []float32{1, 2}}
	dots := post("/v1/einsum", object{"equation": "ij,j->i", "inputs": []object{params, query}})
	fmt.Println("einsum:", dots.Output.Data)

	// Row 1 is replaced in place. Each index is a list of coordinates; "mode": "add" would add instead.
	post(table+"/scatter", object{"indices": [][]int{{1}}, "updates": [][]float32{{7.5, 8.5}}})
	row := post("/v1/gather", object{"params": params, "indices": 1})
	fmt.Println("scatter:", row.Output.Data)

	// There is no row 7. Every error has a Code for programs and a message, Detail, for people.
	if e := tryPost("/v1/gather", object{"params": params, "indices": []int{0, 7}}); e.Code != "" {
		fmt.Printf("error: %s: %s%v is %d, the bound %d\n", e.Code, e.Input, e.Position, e.Index, e.Bound)
	}

	if status, data = sendRequest("DELETE", table, "", nil, ""); status != http.StatusNoContent {
		log.Fatalf("%s", data)
	}
	fmt.Println("deleted")
}
